//! Nothing but a place for whole-system tests; see `tests/`.
