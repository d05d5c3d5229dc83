//! The command as a person uses it: the program itself, real servers, real clients.

mod configuration;
mod console;
mod demo;
mod fixture;
mod life;
mod readme;
mod serving;
