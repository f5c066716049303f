//! A link that can be cut: a TCP proxy between a client and an API server.

use std::net::SocketAddr;

use anyhow::{Context, Result};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinHandle,
};

/// A link that is up until it is cut.
#[derive(Debug)]
pub struct Proxy {
    /// Where to connect to.
    pub address: SocketAddr,
    up: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Proxy {
    /// Opens a link to the server of a client configuration.
    pub async fn open(server: &kube::Config) -> Result<Self> {
        let host = server.cluster_url.host().context("the server has a host")?.to_owned();
        let port = server.cluster_url.port_u16().unwrap_or(443);
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let (up, is_up) = watch::channel(true);
        let task = tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                tokio::spawn(carry(near, (host.clone(), port), is_up.clone()));
            }
        });
        Ok(Self { address, up, task })
    }

    /// Lets nothing through any more, in either direction; connections stay open and silent, as behind a dead router.
    pub fn cut(&self) {
        self.up.send_replace(false);
    }

    /// Lets everything through again. What was sent while the link was cut is lost.
    pub fn mend(&self) {
        self.up.send_replace(true);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn carry(near: TcpStream, server: (String, u16), mut up: watch::Receiver<bool>) {
    let mut near = near;
    if !wait(&mut up, true).await {
        return;
    }
    let Ok(mut far) = TcpStream::connect((server.0.as_str(), server.1)).await else { return };
    let mut cut = up.clone();
    tokio::select! {
        _ = tokio::io::copy_bidirectional(&mut near, &mut far) => {}
        _ = wait(&mut cut, false) => {
            // Both ends keep an open connection on which nothing ever comes, until the link is mended.
            wait(&mut up, true).await;
        }
    }
}

/// Until the link is up, or cut; false when the proxy is gone.
async fn wait(up: &mut watch::Receiver<bool>, wanted: bool) -> bool {
    up.wait_for(|it| *it == wanted).await.is_ok()
}
