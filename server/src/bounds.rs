//! What one client, or all of them together, may ask for.

use std::time::Duration;

/// Limits of a server.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    /// Bytes of a request's body.
    pub body: usize,
    /// Bytes of the body of a question, which is read before its turn to be answered comes.
    pub question: usize,
    /// How long a request may take, from its headers to the start of the answer.
    pub request: Duration,
    /// How long a client may take to send the headers of a request.
    pub headers: Duration,
    /// How long a client may take to take the next part of an answer.
    pub taking: Duration,
    /// Clients at the same time; more wait for one to go.
    pub connections: usize,
    /// Drafts that are searched at the same time.
    pub searches: usize,
    /// Requests that may wait for a search; more are refused.
    pub waiting: usize,
    /// Bytes of answers that are kept.
    pub kept: usize,
    /// Bytes that a simulation may take.
    pub simulation: u64,
    /// How long requests may go on after the server was told to stop.
    pub farewell: Duration,
}

impl Bounds {
    /// Stated defaults. A plan document has some hundred kilobytes at most; a `config.json` with a thousand
    /// names of classes has a hundred. A search over everything that can be rented takes up to half a minute on two
    /// processors.
    pub const STANDARD: Self = Self {
        body: 1 << 20,
        question: 256 << 10,
        request: Duration::from_mins(1),
        headers: Duration::from_secs(10),
        taking: Duration::from_secs(10),
        connections: 512,
        searches: 2,
        waiting: 256,
        kept: 32 << 20,
        simulation: 1 << 30,
        farewell: Duration::from_secs(2),
    };
}
