//! Nothing: the benches are all there is.
