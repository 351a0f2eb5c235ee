//! The `trainyard` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    trainyard_commands::main(std::env::args_os()).into()
}
