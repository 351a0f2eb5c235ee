//! What one client, or all of them together, may ask for.

use std::time::Duration;

/// Limits of a server.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    /// Maximum bytes of a request's body.
    pub body: usize,
    /// Maximum bytes of the body of a question, which is read before its turn to be answered comes.
    pub question: usize,
    /// Maximum time of a request, from its headers to the start of the answer.
    pub request: Duration,
    /// Maximum time that a client may take to send the headers of a request.
    pub headers: Duration,
    /// Maximum time that a client may take to send the body of a request.
    pub sending: Duration,
    /// Maximum time that a client may take to receive the next part of an answer.
    pub taking: Duration,
    /// Maximum number of clients at the same time; more wait until one disconnects.
    pub connections: usize,
    /// Maximum number of drafts that are searched at the same time.
    pub searches: usize,
    /// Maximum number of requests that may wait for a search, and of others that wait for their turn; more are refused.
    pub waiting: usize,
    /// Maximum bytes of cached answers.
    pub kept: usize,
    /// Maximum bytes that a simulation may take.
    pub simulation: u64,
    /// Time that requests may still take after the server was told to stop.
    pub farewell: Duration,
}

impl Bounds {
    /// The documented defaults. A plan document has some hundred kilobytes at most; a `config.json` with a thousand
    /// class names has a hundred. A search over everything that can be rented takes up to half a minute on two
    /// processors.
    pub const STANDARD: Self = Self {
        body: 1 << 20,
        question: 256 << 10,
        request: Duration::from_mins(1),
        headers: Duration::from_secs(10),
        sending: Duration::from_secs(10),
        taking: Duration::from_secs(10),
        connections: 512,
        searches: 2,
        waiting: 256,
        kept: 32 << 20,
        simulation: 1 << 30,
        farewell: Duration::from_secs(2),
    };
}
