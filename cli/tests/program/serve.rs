//! `trainyard serve` as a process: it says where it is, answers, refuses a port that is taken, and ends on Ctrl-C.

use crate::signals::interrupt;
use crate::trainyard::trainyard;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Output, Stdio};

fn serve(arguments: &[&str]) -> Command {
    let mut command = trainyard(".", &[&["serve"][..], arguments].concat());
    command.env_remove("TRAINYARD_TOKEN").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// A server and the first line that it prints.
fn started(arguments: &[&str]) -> (Child, String) {
    let mut child = serve(arguments).spawn().expect("the program is there");
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().expect("piped")).read_line(&mut line).expect("it says where it is");
    (child, line.trim().to_owned())
}

fn interrupted(child: Child, signal: &str) -> Output {
    let killed = Command::new("kill").args([signal, &child.id().to_string()]).status().expect("kill is there");
    assert!(killed.success());
    child.wait_with_output().expect("it ends")
}

fn asked(url: &str, request: &str) -> String {
    let address = url.trim_start_matches("http://").trim_end_matches('/');
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.write_all(request.as_bytes()).expect("it reads");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("it answers");
    text
}

#[cfg(unix)]
#[test]
fn a_server_says_where_it_is_answers_and_ends_on_an_interrupt() {
    for signal in [interrupt(), "-TERM"] {
        let (child, url) = started(&["--port", "0"]);
        assert!(url.starts_with("http://127.0.0.1:"), "{url}");
        let page = asked(&url, "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        assert!(page.starts_with("HTTP/1.1 200") && page.contains("<title>Trainyard"), "{page}");
        let ended = interrupted(child, signal);
        assert_eq!(ended.status.code(), Some(0), "{ended:?}");
        assert!(String::from_utf8_lossy(&ended.stderr).ends_with("ended\n"), "{ended:?}");
    }
}

#[cfg(unix)]
#[test]
fn a_port_that_is_taken_is_wrong_input() {
    let (child, url) = started(&["--port", "0", "--format", "json"]);
    // The document is printed over several lines.
    assert_eq!(url, "{");
    let taken = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    let port = taken.local_addr().expect("bound").port().to_string();
    let refused = serve(&["--port", &port]).output().expect("the program is there");
    let text = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{text}");
    assert!(
        text.contains(&format!("cannot listen on 127.0.0.1:{port}")) && text.contains("hint: another program"),
        "{text}"
    );
    assert!(refused.stdout.is_empty());
    assert_eq!(interrupted(child, interrupt()).status.code(), Some(0));
}

#[cfg(unix)]
#[test]
fn a_token_in_the_environment_is_demanded() {
    let mut command = serve(&["--port", "0"]);
    let mut child = command.env("TRAINYARD_TOKEN", "0123456789abcdef").spawn().expect("the program is there");
    let mut url = String::new();
    BufReader::new(child.stdout.as_mut().expect("piped")).read_line(&mut url).expect("it says where it is");
    let ask = |more: &str| {
        let request = format!("GET /api/v1/catalogs HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{more}\r\n");
        asked(url.trim(), &request)
    };
    assert!(ask("").starts_with("HTTP/1.1 401"));
    assert!(ask("Authorization: Bearer 0123456789abcdef\r\n").starts_with("HTTP/1.1 200"));
    let ended = interrupted(child, interrupt());
    assert!(!String::from_utf8_lossy(&ended.stderr).contains("0123456789abcdef"), "a token is never printed");
}
