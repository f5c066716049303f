//! One address for several servers, as a Service is: a TCP proxy that leads each connection to one that listens.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use anyhow::Result;
use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};

/// An address in front of servers that come and go.
#[derive(Debug)]
pub struct Balancer {
    /// Where to connect to.
    pub address: SocketAddr,
    servers: Servers,
    task: JoinHandle<()>,
}

#[derive(Debug, Clone, Default)]
struct Servers(Arc<Mutex<Vec<SocketAddr>>>);

impl Servers {
    fn lock(&self) -> MutexGuard<'_, Vec<SocketAddr>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All of them, the one whose turn it is first.
    fn in_turn(&self) -> Vec<SocketAddr> {
        let mut servers = self.lock();
        if !servers.is_empty() {
            servers.rotate_left(1);
        }
        servers.clone()
    }
}

impl Balancer {
    /// An address without servers.
    pub async fn open() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let servers = Servers::default();
        let known = servers.clone();
        let task = tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                tokio::spawn(carry(near, known.in_turn()));
            }
        });
        Ok(Self { address, servers, task })
    }

    /// Leads connections to `server` as well.
    pub fn add(&self, server: SocketAddr) {
        self.servers.lock().push(server);
    }
}

impl Drop for Balancer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn carry(mut near: TcpStream, servers: Vec<SocketAddr>) {
    for server in servers {
        if let Ok(mut far) = TcpStream::connect(server).await {
            let _ = tokio::io::copy_bidirectional(&mut near, &mut far).await;
            return;
        }
    }
}
