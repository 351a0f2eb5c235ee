//! Data to train on, whatever it is stored as, as samples in an order that a seed decides.
//!
//! A [`Dataset`] is opened from a path and what the model wants of it ([`SampleKind`]); it knows how many samples there
//! are, which of them are held out, and gives any of them by number. The order of training depends on the data and the
//! seed alone, so that a global batch is the same however it is sliced over replicas and micro-batches, and so that a
//! run goes on from a position exactly.
//!
//! What the model wants, and what it may be stored as:
//!
//! - tokens, each predicting the next, or masked ones: a text file or a folder of them, read as bytes or through a
//!   `tokenizer.json`; a `.npy` or safetensors array of token ids;
//! - images with a class: a folder for each class with JPEG and PNG files; MNIST (IDX) files; CIFAR-10 and CIFAR-100
//!   binary files; arrays;
//! - vectors with a class: MNIST and CIFAR files, pixel by pixel; arrays.
//!
//! Pixels are divided by 255, then the mean is taken off and the deviation divided by: with three channels those of
//! ImageNet, as torchvision's models expect; else both are a half, so that values lie between −1 and 1. Images from
//! files are cut to their central square and scaled to the model's side.

#![allow(clippy::cast_possible_wrap, reason = "vocabularies and numbers of classes are below 2³¹")]
#![cfg_attr(test, allow(clippy::float_cmp, reason = "what is copied comes back bit for bit"))]

mod arrays;
mod batch;
mod cifar;
mod dataset;
mod error;
mod files;
mod guarded;
mod idx;
mod images;
mod labelled;
mod masking;
mod order;
mod random;
mod report;
mod sample_kind;
mod text;
mod tokenizer;

pub use batch::{Inputs, MicroBatch};
pub use dataset::{DataSource, Dataset, SYNTHETIC};
pub use error::DataError;
pub use order::{Order, Slice};
pub use random::{Purpose, generator, key};
pub use report::DataReport;
pub use sample_kind::SampleKind;
