//! Models of the catalog and of files, against what is published of them.

mod fine_tuning;
mod hugging_face;
mod published_counts;
mod published_counts_sequence;
mod transformers;
