mod migrations;
mod server;
