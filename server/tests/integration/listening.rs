//! A server behind a socket of this machine.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use trainyard_server::{Bounds, Settings, Stop, serve};

/// Sends these bytes to a server, and returns what it answers until it closes the connection.
fn exchange(address: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("the server listens");
    // The server may refuse a request and close the connection before everything is written.
    let _ = stream.write_all(request.as_bytes());
    let mut text = Vec::new();
    let _ = stream.read_to_end(&mut text);
    String::from_utf8_lossy(&text).into_owned()
}

/// Runs `test` while a server listens, and then stops it.
fn while_serving(bounds: Bounds, test: impl FnOnce(SocketAddr)) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    let address = listener.local_addr().expect("bound");
    let settings = Settings { bounds, loopback: true, token: None, exports: &[], history: None };
    let stop = Stop::default();
    std::thread::scope(|scope| {
        let server = scope.spawn(|| serve(listener, settings, &stop));
        let tested = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| test(address)));
        stop.stop();
        assert!(server.join().expect("it ends").is_ok());
        tested.expect("the test itself");
    });
    assert!(TcpStream::connect(address).is_err(), "nobody listens any more");
}

#[test]
fn a_server_answers_until_it_is_stopped() {
    while_serving(Bounds::STANDARD, |address| {
        let answer = exchange(address, "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
        assert!(answer.contains("content-security-policy: default-src 'none'"), "{answer}");
        let other = exchange(address, "GET / HTTP/1.1\r\nHost: attacker.example\r\nConnection: close\r\n\r\n");
        assert!(other.starts_with("HTTP/1.1 421"), "{other}");
    });
}

#[test]
fn a_request_goes_by_one_host_whatever_its_form() {
    while_serving(Bounds::STANDARD, |address| {
        let ask = |head: &str| exchange(address, &format!("{head}\r\nConnection: close\r\n\r\n"));
        for (head, status) in [
            ("GET http://localhost/ HTTP/1.1\r\nHost: localhost", "200"),
            ("GET http://attacker.example/ HTTP/1.1\r\nHost: attacker.example", "421"),
            ("GET http://attacker.example/ HTTP/1.1\r\nHost: localhost", "400"),
            ("GET http://localhost/ HTTP/1.1\r\nHost: attacker.example", "400"),
            ("GET / HTTP/1.1\r\nHost: localhost\r\nHost: attacker.example", "400"),
            ("GET / HTTP/1.1\r\nHost: localhost\r\nHost: localhost", "400"),
        ] {
            let answer = ask(head);
            assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{head}: {answer}");
        }
    });
}

#[test]
fn what_is_not_http_is_not_answered_as_such() {
    while_serving(Bounds::STANDARD, |address| {
        assert!(exchange(address, "\u{16}\u{3}\u{1}\r\n\r\n").starts_with("HTTP/1.1 400"));
        let long = format!("GET / HTTP/1.1\r\nHost: localhost\r\nX: {}\r\n\r\n", "x".repeat(1 << 20));
        assert!(exchange(address, &long).is_empty() || exchange(address, &long).starts_with("HTTP/1.1 431"));
    });
}

#[test]
fn a_client_that_sends_no_headers_is_let_go() {
    let bounds = Bounds { headers: std::time::Duration::from_millis(50), ..Bounds::STANDARD };
    while_serving(bounds, |address| {
        // The exchange ends because the server closes the connection.
        assert!(!exchange(address, "GET / HTTP/1.1\r\nHost: local").starts_with("HTTP/1.1 200"));
    });
}

#[test]
fn a_body_that_breaks_off_or_does_not_come_is_told_so() {
    let moment = std::time::Duration::from_millis(50);
    while_serving(Bounds { sending: moment, ..Bounds::STANDARD }, |address| {
        let ask = |rest: &str| {
            let head = "POST /api/v1/plan HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";
            exchange(address, &format!("{head}{rest}"))
        };
        let broken = ask("Transfer-Encoding: chunked\r\n\r\nno length\r\n");
        assert!(broken.starts_with("HTTP/1.1 400") && broken.contains("the body breaks off"), "{broken}");
        let slow = ask("Content-Length: 100\r\n\r\n{");
        assert!(slow.starts_with("HTTP/1.1 408") && slow.contains("did not arrive within 0.05 s"), "{slow}");
    });
}

#[test]
fn clients_beyond_the_limit_wait_for_their_turn() {
    while_serving(Bounds { connections: 1, ..Bounds::STANDARD }, |address| {
        let first = TcpStream::connect(address).expect("the server listens");
        std::thread::scope(|scope| {
            let second = scope
                .spawn(move || exchange(address, "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"));
            drop(first);
            assert!(second.join().expect("it ends").starts_with("HTTP/1.1 200"));
        });
    });
}

#[test]
fn a_client_that_takes_no_answers_is_let_go() {
    let moment = std::time::Duration::from_millis(50);
    while_serving(Bounds { connections: 1, taking: moment, ..Bounds::STANDARD }, |address| {
        let mut first = TcpStream::connect(address).expect("the server listens");
        // Far more than the system buffers of answers that are not received.
        let many = "GET /api/v1/catalogs HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(2000);
        let _ = first.write_all(many.as_bytes());
        let answer = exchange(address, "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        drop(first);
    });
}
