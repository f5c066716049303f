//! `kubectl-fleet`: found by `kubectl` as `kubectl fleet`.

use std::process::ExitCode;

use clap::Parser;
use cli::{Arguments, run};

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            // Not clap's own 2, which means that a change is pending.
            let is_wrong = error.use_stderr();
            let _ = error.print();
            return ExitCode::from(u8::from(is_wrong));
        }
    };
    // Two providers may be in the build; rustls wants to be told which. It is the first word said to it.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let format = arguments.output;
    match run(arguments).await {
        Ok(answer) => {
            print!("{}", answer.printed(format));
            ExitCode::from(answer.exit.code())
        }
        Err(error) => {
            eprintln!("Error: {}", error.told());
            ExitCode::from(error.exit().code())
        }
    }
}
