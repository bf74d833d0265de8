//! `opship serve`.

use crate::args::Serve;
use crate::{output, standard};
use opship_engine::Compiler;
use opship_server::{Server, ServerConfig, ServerError};
use std::path::PathBuf;
use std::process::ExitCode;
use tokio::signal::unix::{SignalKind, signal};

pub(crate) fn serve(arguments: Serve, json: bool) -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return failed(&format!("cannot start: {error}")),
    };
    match runtime.block_on(run(arguments, json)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(&error.to_string()),
    }
}

fn failed(text: &str) -> ExitCode {
    output::error(text);
    ExitCode::from(output::FAILURE)
}

async fn run(arguments: Serve, json: bool) -> Result<(), ServerError> {
    let data = arguments.data.unwrap_or_else(default_data);
    let program = std::env::current_exe().unwrap_or_else(|_| PathBuf::from("opship"));
    let compiler = Compiler::Child { program, arguments: vec!["__compile".into()] };
    let mut config = ServerConfig::new(data.clone(), arguments.listen, compiler);
    config.replay = !arguments.no_replay;
    config.insecure = arguments.insecure;
    arguments.limits.apply(&mut config);
    config.workers = arguments.workers.unwrap_or(config.workers).max(1);
    config.standard_modules =
        standard::MODULES.iter().map(|(name, bytes)| ((*name).to_owned(), bytes.to_vec())).collect();
    // Handlers stand before the first word is out, so that whoever reads it may already send a signal.
    let stop = stop_signal();
    let server = Server::bind(config).await?;
    let url = format!("http://{}", server.local_addr());
    if json {
        output::line(&serde_json::json!({ "listening": url, "data": data }).to_string());
    } else {
        output::line(&format!("listening on {url}"));
        output::line(&format!("data in {}", data.display()));
    }
    server.run(stop).await
}

/// Ends when SIGTERM or SIGINT comes.
fn stop_signal() -> impl Future<Output = ()> + Send + 'static {
    let mut signals = [SignalKind::terminate(), SignalKind::interrupt()].map(signal);
    async move {
        let [terminate, interrupt] = &mut signals;
        match (terminate, interrupt) {
            (Ok(terminate), Ok(interrupt)) => {
                tokio::select! {
                    _ = terminate.recv() => {}
                    _ = interrupt.recv() => {}
                }
            }
            _ => std::future::pending().await,
        }
    }
}

fn default_data() -> PathBuf {
    let from = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let home = || from("HOME").unwrap_or_default().join(".local/share");
    from("XDG_DATA_HOME").unwrap_or_else(home).join("opship")
}
