//! Who may ask, and what every answer says to the browser.

use crate::refusal::Refusal;
use axum::body::Body;
use axum::extract::State;
use axum::http::header::{
    AUTHORIZATION, CACHE_CONTROL, CONTENT_SECURITY_POLICY, HOST, HeaderName, ORIGIN, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderValue, Request, Response};
use axum::middleware::Next;
use axum::response::IntoResponse;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;
use subtle::ConstantTimeEq;

/// The secret that clients must send to be answered. It is never printed.
#[derive(Clone)]
pub struct Token(String);

/// The reason why a text cannot be a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenError {
    /// It is short enough to be guessed.
    Short {
        /// Number of characters that it has.
        length: usize,
        /// Minimum number of characters.
        least: usize,
    },
    /// It has characters that cannot stand in a header.
    Characters,
}

impl std::fmt::Display for TokenError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Short { length, least } => {
                write!(formatter, "the token has {length} characters, but it must have at least {least}")
            }
            Self::Characters => formatter.write_str("the token must be letters, digits and punctuation without spaces"),
        }
    }
}

impl std::error::Error for TokenError {}

impl std::fmt::Debug for Token {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Token(…)")
    }
}

impl Token {
    /// Minimum length in characters: sixteen random letters and digits cannot be guessed by trying.
    const LEAST: usize = 16;

    /// Creates a token from a text.
    ///
    /// # Errors
    ///
    /// Fails when the text is short enough to be guessed, or cannot stand in a header.
    pub fn new(text: &str) -> Result<Self, TokenError> {
        if !text.chars().all(|letter| letter.is_ascii_graphic()) {
            return Err(TokenError::Characters);
        }
        if text.len() < Self::LEAST {
            return Err(TokenError::Short { length: text.len(), least: Self::LEAST });
        }
        Ok(Self(text.into()))
    }

    /// Returns `true` if the headers of a request contain the token. The comparison takes constant time, so that it
    /// reveals nothing about where a wrong token differs. Names of schemes are the same in capital and small letters.
    ///
    /// # Source
    ///
    /// RFC 9110, section 11.1.
    fn is_shown_by(&self, headers: &HeaderMap) -> bool {
        let shown = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok()?.split_once(' '));
        shown.is_some_and(|(scheme, shown)| {
            scheme.eq_ignore_ascii_case("bearer") && bool::from(shown.as_bytes().ct_eq(self.0.as_bytes()))
        })
    }
}

/// The content security policy of pages: they may run and load only what comes from this server.
const CONTENT_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
                              connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The headers of every answer.
const HEADERS: [(HeaderName, &str); 7] = [
    (CONTENT_SECURITY_POLICY, CONTENT_POLICY),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (X_FRAME_OPTIONS, "DENY"),
    (REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (HeaderName::from_static("permissions-policy"), "camera=(), geolocation=(), microphone=()"),
];

/// The header that tells requests of other sites' pages from those of this page: browsers send it, and pages cannot
/// change it.
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Who may ask, and for how long.
#[derive(Clone)]
pub(crate) struct Access {
    /// `true` if only requests for names of this machine are answered.
    pub(crate) loopback: bool,
    /// The token that requests to the API must show.
    pub(crate) token: Option<Token>,
    pub(crate) time_limit: Duration,
}

/// Answers a request if it is allowed, within the time limit, with the headers of every answer.
pub(crate) async fn guard(State(access): State<Access>, request: Request<Body>, next: Next) -> Response<Body> {
    let mut response = if let Err(refusal) = admitted(&access, &request) {
        refusal.into_response()
    } else {
        let answered = tokio::time::timeout(access.time_limit, next.run(request)).await;
        answered.unwrap_or_else(|_| Refusal::timeout(access.time_limit.as_secs_f64()).into_response())
    };
    let headers = response.headers_mut();
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

fn admitted(access: &Access, request: &Request<Body>) -> Result<(), Refusal> {
    let headers = request.headers();
    let host = host(request)?;
    if access.loopback && !is_this_machine(host) {
        return Err(Refusal::misdirected(host));
    }
    if !request.uri().path().starts_with("/api/") {
        return Ok(());
    }
    let site = headers.get_all(FETCH_SITE).iter().map(HeaderValue::as_bytes);
    if site.into_iter().any(|site| site != b"same-origin" && site != b"none") {
        return Err(Refusal::forbidden("another site's page may not ask"));
    }
    if let Some(origin) = headers.get_all(ORIGIN).iter().find(|origin| !is_of(origin, host)) {
        let origin = String::from_utf8_lossy(origin.as_bytes());
        return Err(Refusal::forbidden(format!("a page of `{origin}` may not ask `{host}`"))
            .hint("a proxy between them must pass the header `Host` on as it is".to_owned()));
    }
    if access.token.as_ref().is_some_and(|token| !token.is_shown_by(headers)) {
        return Err(Refusal::unauthorized());
    }
    // No path takes any: one that would be ignored may have been meant to change the answer.
    let query = request.uri().query().filter(|query| !query.is_empty());
    query.map_or(Ok(()), |query| Err(Refusal::parameter(query.split(['=', '&']).next().unwrap_or(query))))
}

/// Returns the host that a request names: the one of its target, where that is a whole address, and of its header, which
/// must be the same. One that names several is refused, because what is between may go by another than this server.
///
/// # Source
///
/// RFC 9112, sections 3.2 and 3.2.2.
fn host(request: &Request<Body>) -> Result<&str, Refusal> {
    let mut hosts = request.headers().get_all(HOST).iter();
    let (first, second) = (hosts.next(), hosts.next());
    if second.is_some() {
        return Err(Refusal::request("the request has more than one `Host`"));
    }
    let header = first.map(|host| host.to_str().map_err(|_| Refusal::request("`Host` is no name of a host")));
    let header = header.transpose()?;
    let target = request.uri().authority().map(Authority::as_str);
    match (target, header) {
        (Some(target), Some(header)) if !target.eq_ignore_ascii_case(header) => {
            Err(Refusal::request(format!("the target is of `{target}`, but `Host` is `{header}`")))
        }
        _ => target.or(header).ok_or_else(|| Refusal::request("the request has no `Host`")),
    }
}

/// Returns `true` if an origin is that of this server's own page: a scheme and the host of the request.
fn is_of(origin: &HeaderValue, host: &str) -> bool {
    let own = origin.to_str().ok().and_then(|origin| origin.split_once("://"));
    own.is_some_and(|(scheme, name)| matches!(scheme, "http" | "https") && name.eq_ignore_ascii_case(host))
}

/// Tells whether a host is this machine. A foreign page whose name is made to point here (DNS rebinding) still sends its
/// own name.
fn is_this_machine(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|digit| digit.is_ascii_digit()) => name,
        _ => host,
    };
    // IPv6 addresses stand in brackets, so that their colons are not taken for that of a port.
    let loopback = match name.strip_prefix('[').and_then(|name| name.strip_suffix(']')) {
        Some(name) => name.parse::<Ipv6Addr>().is_ok_and(|address| address.is_loopback()),
        None => name.parse::<Ipv4Addr>().is_ok_and(|address| address.is_loopback()),
    };
    loopback || name.eq_ignore_ascii_case("localhost")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: HeaderName, value: &str) -> HeaderMap {
        HeaderMap::from_iter([(name, HeaderValue::from_str(value).expect("a value"))])
    }

    #[test]
    fn a_token_is_long_and_can_stand_in_a_header() {
        assert_eq!(Token::new("short").err(), Some(TokenError::Short { length: 5, least: 16 }));
        assert_eq!(Token::new("with spaces and more").err(), Some(TokenError::Characters));
        let token = Token::new("0123456789abcdef").expect("a token");
        assert_eq!(format!("{token:?}"), "Token(…)");
        for scheme in ["Bearer", "bearer", "BEARER"] {
            assert!(token.is_shown_by(&headers(AUTHORIZATION, &format!("{scheme} 0123456789abcdef"))), "{scheme}");
        }
        for wrong in ["Bearer 0123456789abcdeF", "Bearer 0123456789abcde", "Basic 0123456789abcdef", "0123456789abcdef"]
        {
            assert!(!token.is_shown_by(&headers(AUTHORIZATION, wrong)), "{wrong}");
        }
        assert!(!token.is_shown_by(&HeaderMap::new()));
    }

    #[test]
    fn names_of_this_machine_are_told_from_others() {
        for own in ["localhost", "LOCALHOST:8080", "127.0.0.1:8080", "127.1.2.3", "[::1]:80", "[::1]"] {
            assert!(is_this_machine(own), "{own}");
        }
        for other in [
            "example.com",
            "localhost.example.com:8080",
            "127.0.0.1.example.com",
            "192.168.1.2:80",
            "",
            "::1:80",
            "localhost@example.com",
            "example.com@localhost",
        ] {
            assert!(!is_this_machine(other), "{other}");
        }
    }

    #[test]
    fn a_request_names_one_host() {
        let request = |target: &str, hosts: &[&str]| {
            let request = hosts.iter().fold(Request::get(target), |request, host| request.header(HOST, *host));
            let request = request.body(Body::empty()).expect("a request");
            host(&request).map(str::to_owned).map_err(|refusal| refusal.status)
        };
        assert_eq!(request("/", &["localhost:80"]), Ok("localhost:80".into()));
        assert_eq!(request("/", &[]), Err(400));
        assert_eq!(request("http://a.example/", &["A.example"]), Ok("a.example".into()));
        assert_eq!(request("http://a.example/", &[]), Ok("a.example".into()));
        for (target, hosts) in [
            ("/", ["localhost", "a.example"].as_slice()),
            ("/", &["localhost", "localhost"]),
            ("http://a.example/", &["localhost"]),
            ("http://localhost/", &["a.example"]),
            ("http://localhost:81/", &["localhost:80"]),
        ] {
            assert_eq!(request(target, hosts), Err(400), "{target} {hosts:?}");
        }
    }

    #[test]
    fn an_origin_is_of_the_host_that_is_asked() {
        let is_of = |origin: &str, host| is_of(&HeaderValue::from_str(origin).expect("a value"), host);
        assert!(is_of("http://localhost:80", "localhost:80") && is_of("https://Plan.example", "plan.example"));
        for other in
            ["null", "", "localhost:80", "http://localhost", "http://a.example", "file://localhost:80", "http://"]
        {
            assert!(!is_of(other, "localhost:80"), "{other}");
        }
    }
}
