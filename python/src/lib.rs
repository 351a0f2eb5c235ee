//! The extension module `trainyard._native`: calls of commands, and the program itself.
//!
//! What is here hands words and texts to `trainyard_commands` and events back; everything that is Python's own (types,
//! exceptions, pages of notebooks) is Python in `trainyard/`.

use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use trainyard_commands::{Answer, Call, Cancellation, Event, Form, Listener, Refusal};

/// How often Python is asked whether a signal came in, such as Ctrl-C.
const PATIENCE: Duration = Duration::from_millis(50);

/// What the thread of a command tells the thread that waits for it.
enum Told {
    /// The kind of an event, and its text.
    Event(&'static str, String),
    Ended(Result<Answer, Refusal>),
}

/// Runs the program with these words, of which the first is its name, and returns its exit code.
#[pyfunction]
fn main(py: Python<'_>, words: Vec<OsString>) -> u8 {
    py.detach(|| trainyard_commands::main(words))
}

/// Calls a command. `texts` stand in place of files; those whose names end in `.toml` are JSON. `hear` is called with the
/// kind and the text of notes, warnings and progress. Returns what was printed, and why the command failed if it did.
#[pyfunction]
fn call<'py>(
    py: Python<'py>,
    words: Vec<OsString>,
    texts: BTreeMap<String, String>,
    hear: &Bound<'py, PyAny>,
) -> PyResult<(String, Option<Bound<'py, PyDict>>)> {
    let texts = texts.into_iter().map(|(name, text)| in_place(name, text)).collect();
    let (sender, told) = channel();
    let cancellation = Cancellation::default();
    let call = Call::new(words).with_texts(texts).until(cancellation.clone());
    let command = move || {
        let events = sender.clone();
        // Nobody waits any more where nobody listens.
        let listener = Listener::new(move |event| {
            let (kind, text) = match event {
                Event::Note(text) => ("note", text),
                Event::Warning(text) => ("warning", text),
                Event::Progress(text) => ("progress", text),
                Event::Result(_) => return,
            };
            let _ = events.send(Told::Event(kind, text.to_owned()));
        });
        let _ = sender.send(Told::Ended(call.answer(listener)));
    };
    std::thread::Builder::new().name("trainyard".into()).spawn(command)?;
    match ended(py, &Mutex::new(told), hear) {
        Ok(Ok(Answer { text })) => Ok((text, None)),
        Ok(Err(refusal)) => Ok((refusal.text.clone(), Some(refused(py, &refusal)?))),
        Err(interrupted) => {
            // The thread ends by itself, and writes nothing.
            cancellation.cancel();
            Err(interrupted)
        }
    }
}

/// Returns a document as people see it: `page`, `html`, `front-html`, `svg` or `csv`; None where it has no such form.
#[pyfunction]
fn shown(py: Python<'_>, document: &str, form: &str) -> PyResult<Option<String>> {
    let form = match form {
        "page" => Form::Page,
        "html" => Form::Html,
        "front-html" => Form::FrontHtml,
        "svg" => Form::Svg,
        "csv" => Form::Csv,
        other => return Err(PyValueError::new_err(format!("`{other}` is no form of documents"))),
    };
    Ok(py.detach(|| trainyard_commands::shown(document, form)))
}

/// Waits for the end of a command, without the GIL, and hands on what it says.
fn ended(py: Python<'_>, told: &Mutex<Receiver<Told>>, hear: &Bound<'_, PyAny>) -> PyResult<Result<Answer, Refusal>> {
    loop {
        match py.detach(|| next(told)) {
            Ok(Told::Event(kind, text)) => drop(hear.call1((kind, text))?),
            Ok(Told::Ended(ended)) => return Ok(ended),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                return Err(PyRuntimeError::new_err("trainyard panicked: this is a bug, please report it"));
            }
        }
        py.check_signals()?;
    }
}

/// Waits for what a command says next.
fn next(told: &Mutex<Receiver<Told>>) -> Result<Told, RecvTimeoutError> {
    told.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(PATIENCE)
}

fn refused<'py>(py: Python<'py>, refusal: &Refusal) -> PyResult<Bound<'py, PyDict>> {
    let facts = PyDict::new(py);
    facts.set_item("exit_code", refusal.exit)?;
    facts.set_item("message", &refusal.message)?;
    facts.set_item("causes", PyList::new(py, &refusal.causes)?)?;
    facts.set_item("hint", &refusal.hint)?;
    facts.set_item("field", &refusal.field)?;
    facts.set_item("value", &refusal.value)?;
    facts.set_item("allowed", &refusal.allowed)?;
    Ok(facts)
}

/// Returns a text as the file of its name would hold it: dictionaries come as JSON, but jobs are written in TOML.
fn in_place(name: String, text: String) -> (String, String) {
    let table = name.ends_with(".toml").then(|| toml_of(&text).ok()).flatten();
    let text = table.unwrap_or(text);
    (name, text)
}

/// Returns a JSON object as TOML, without its nulls.
#[pyfunction]
fn toml_of(text: &str) -> PyResult<String> {
    let read = serde_json::from_str(text).map_err(|error| PyValueError::new_err(error.to_string()))?;
    toml::to_string(&set(read)).map_err(|error| PyValueError::new_err(error.to_string()))
}

/// Returns a value without its nulls: a field that is none is left out.
fn set(value: serde_json::Value) -> serde_json::Value {
    use serde_json::Value;
    match value {
        Value::Object(fields) => Value::Object(
            fields.into_iter().filter(|(_, value)| !value.is_null()).map(|(key, value)| (key, set(value))).collect(),
        ),
        Value::Array(values) => Value::Array(values.into_iter().map(set).collect()),
        other => other,
    }
}

#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_function(wrap_pyfunction!(main, module)?)?;
    module.add_function(wrap_pyfunction!(call, module)?)?;
    module.add_function(wrap_pyfunction!(toml_of, module)?)?;
    module.add_function(wrap_pyfunction!(shown, module)?)
}
