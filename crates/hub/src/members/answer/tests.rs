mod access;
mod answering;
mod kit;
mod renewing;
mod signing;
mod tokens;
