//! Files of other programs, read and written.

mod onnx;
mod round_trip;
