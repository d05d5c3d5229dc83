//! Fuzz targets (`make fuzz`): checks that hold for any bytes, and the inputs that are kept in `fuzz/corpus`.

mod auth_file;
mod config;
mod door;
mod hba;
mod imports;
mod log_in;
#[path = "../../../../fuzz/play.rs"]
mod play;
mod requests;

use play::play;

#[test]
fn any_text_is_a_configuration_or_named_mistakes() {
    play("config", config::check);
}

#[test]
fn any_text_is_an_auth_file_or_a_named_line() {
    play("auth_file", auth_file::check);
}

#[test]
fn any_text_is_rules_or_named_mistakes() {
    play("hba", hba::check);
}

#[test]
fn any_text_is_a_configuration_of_another_product_or_refused() {
    play("imports", imports::check);
}

#[test]
fn any_bytes_are_requests_or_refused() {
    play("requests", requests::check);
}

#[test]
fn any_bytes_of_a_client_are_answered_at_the_door() {
    play("door", door::check);
}

#[test]
fn any_bytes_of_a_server_are_a_log_in_or_refused() {
    play("log_in", log_in::check);
}
