//! `trainyard serve`: the what-if page and its JSON API, until somebody stops it.

use super::export::launch_files;
use crate::arguments::ServeArguments;
use crate::failure::{Exit, Failure};
use crate::history::History;
use crate::interrupt::on_interrupt;
use crate::output::Output;
use serde_json::json;
use std::io::{Error, ErrorKind};
use std::net::{SocketAddr, TcpListener};
use std::sync::LazyLock;
use trainyard_plan::LaunchDocument;
use trainyard_plan::document::PlanDocument;
use trainyard_planner::{MachineFiles, machine};
use trainyard_reports::{self as reports, LaunchOptions};
use trainyard_server::{Bounds, Refusal, Settings, Stop, Target, Token, TokenError, serve as run};

/// The export targets of the page: all those of `trainyard export`.
static EXPORTS: LazyLock<Vec<Target>> = LazyLock::new(|| {
    let all = reports::Target::ALL.into_iter();
    all.map(|target| Target { name: target.name(), title: target.title(), export: exported }).collect()
});

/// Makes the launch files of a plan that uses no file of this machine.
fn exported(target: &str, document: &PlanDocument) -> Result<LaunchDocument, Refusal> {
    let known = reports::Target::ALL.into_iter().find(|known| known.name() == target);
    let target = known.expect("the list is made of them");
    let machine = machine(document, MachineFiles::default())?;
    launch_files(document, &machine, target, &LaunchOptions::default())
        .map_err(|(cause, hint)| Refusal::input(cause).hint(hint))
}

/// The environment variable of the token, which a flag overrides.
const TOKEN: &str = "TRAINYARD_TOKEN";

/// Serves the page. Ctrl-C and SIGTERM end it gracefully, a second one at once.
pub(crate) fn serve(arguments: &ServeArguments, history: &History, output: &Output) -> Result<Exit, Failure> {
    let loopback = arguments.listen.is_loopback();
    let token = token(arguments)?;
    if token.is_none() && !loopback {
        let message = format!("`--listen {}` is reached from other machines, and no token is set", arguments.listen);
        return Err(Failure::input(message)
            .hint(format!("set {TOKEN} to sixteen or more random letters, `openssl rand -hex 16` makes some")));
    }
    let address = SocketAddr::new(arguments.listen, arguments.port);
    let listener = TcpListener::bind(address).map_err(|error| refused(address, &error))?;
    let address = listener.local_addr().map_err(|error| refused(address, &error))?;
    let stop = close_on_interrupt();
    let url = format!("http://{address}/");
    output.result(&json!({ "url": url }), || format!("{url}\n"));
    output.note("serving the what-if page; press Ctrl-C to stop");
    let bounds = Bounds { searches: rayon::current_num_threads(), ..Bounds::STANDARD };
    let history = history.place().map(Into::into);
    let settings = Settings { bounds, loopback, token, exports: &EXPORTS, history };
    run(listener, settings, &stop)
        .map_err(|error| Failure::new(Exit::Failed, format!("cannot serve {url}")).because(error.to_string()))?;
    output.note("ended");
    Ok(Exit::Done)
}

/// Returns the token of the flag or of the environment, if there is one.
fn token(arguments: &ServeArguments) -> Result<Option<Token>, Failure> {
    // A value that is not Unicode is not a token either, and is reported as such.
    let environment = std::env::var_os(TOKEN).filter(|text| !text.is_empty());
    let (name, text) = match (&arguments.token, environment) {
        (Some(text), _) => ("--token", text.clone()),
        (None, Some(text)) => (TOKEN, text.to_string_lossy().into_owned()),
        (None, None) => return Ok(None),
    };
    Token::new(&text).map(Some).map_err(|error: TokenError| {
        Failure::input(format!("in `{name}`: {error}")).hint("`openssl rand -hex 16` makes one that nobody guesses")
    })
}

/// Returns the failure of listening on an address.
fn refused(address: SocketAddr, error: &Error) -> Failure {
    let failure = |exit| Failure::new(exit, format!("cannot listen on {address}")).because(error.to_string());
    match error.kind() {
        ErrorKind::AddrInUse => {
            failure(Exit::Input).hint("another program has this port: take another with --port N, or any with --port 0")
        }
        ErrorKind::PermissionDenied => failure(Exit::Input).hint("ports below 1024 are for the system: --port 8080"),
        ErrorKind::AddrNotAvailable => {
            failure(Exit::Input).hint("--listen takes an address of this machine; 0.0.0.0 is all of them")
        }
        _ => failure(Exit::Failed),
    }
}

fn close_on_interrupt() -> Stop {
    let stop = Stop::default();
    let own = stop.clone();
    on_interrupt(move || own.stop());
    stop
}
