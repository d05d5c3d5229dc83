//! Consort's own requests to servers: messages written to the end of a buffer.

use crate::tag::front;
use crate::{CancelRequest, Target};

/// Writes one frame; `body` fills it.
pub(crate) fn frame(out: &mut Vec<u8>, tag: u8, body: impl FnOnce(&mut Vec<u8>)) {
    out.push(tag);
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    body(out);
    close(out, at);
}

/// Fills in the length of what was written from `at` on.
fn close(out: &mut [u8], at: usize) {
    let length = u32::try_from(out.len() - at).expect("a message of ours is short");
    out[at..at + 4].copy_from_slice(&length.to_be_bytes());
}

/// Writes a string and its closing zero byte. Text after a zero byte inside it is left out.
pub(crate) fn string(out: &mut Vec<u8>, text: &[u8]) {
    out.extend(text.iter().take_while(|&&b| b != 0));
    out.push(0);
}

/// A buffer to which requests are written.
pub trait Asks {
    /// StartupMessage, protocol 3.0.
    fn startup(&mut self, parameters: &[(&str, &str)]);
    /// SSLRequest.
    fn ssl_request(&mut self);
    /// CancelRequest.
    fn cancel(&mut self, request: &CancelRequest);
    /// PasswordMessage.
    fn password(&mut self, password: &[u8]);
    /// SASLInitialResponse.
    fn sasl_first(&mut self, mechanism: &str, message: &[u8]);
    /// SASLResponse.
    fn sasl_next(&mut self, message: &[u8]);
    /// Query.
    fn query(&mut self, text: &[u8]);
    /// Parse, with the types as they stand in a Parse message.
    fn parse(&mut self, name: &[u8], text: &[u8], types: &[u8]);
    /// Bind, with everything after the names as it stands in a Bind message.
    fn bind(&mut self, portal: &[u8], statement: &[u8], rest: &[u8]);
    /// Bind of the unnamed portal without parameters, all results as text.
    fn bind_plain(&mut self, statement: &[u8]);
    /// Describe.
    fn describe(&mut self, target: Target, name: &[u8]);
    /// Execute.
    fn execute(&mut self, portal: &[u8], max_rows: i32);
    /// Close.
    fn close(&mut self, target: Target, name: &[u8]);
    /// FunctionCall, parameters and result as text.
    fn function_call(&mut self, function: u32, parameters: &[&str]);
    /// Sync.
    fn sync(&mut self);
    /// Flush.
    fn flush(&mut self);
    /// Terminate.
    fn terminate(&mut self);
}

fn target_byte(target: Target) -> u8 {
    match target {
        Target::Statement => b'S',
        Target::Portal => b'P',
    }
}

impl Asks for Vec<u8> {
    fn startup(&mut self, parameters: &[(&str, &str)]) {
        let at = self.len();
        self.extend_from_slice(&[0; 4]);
        self.extend_from_slice(&0x0003_0000_u32.to_be_bytes());
        for (name, value) in parameters {
            string(self, name.as_bytes());
            string(self, value.as_bytes());
        }
        self.push(0);
        close(self, at);
    }

    fn ssl_request(&mut self) {
        self.extend_from_slice(&8_u32.to_be_bytes());
        self.extend_from_slice(&80_877_103_u32.to_be_bytes());
    }

    fn cancel(&mut self, request: &CancelRequest) {
        let at = self.len();
        self.extend_from_slice(&[0; 4]);
        self.extend_from_slice(&80_877_102_u32.to_be_bytes());
        self.extend_from_slice(&request.pid.to_be_bytes());
        self.extend_from_slice(&request.secret);
        close(self, at);
    }

    fn password(&mut self, password: &[u8]) {
        frame(self, front::PASSWORD, |out| string(out, password));
    }

    fn sasl_first(&mut self, mechanism: &str, message: &[u8]) {
        frame(self, front::PASSWORD, |out| {
            string(out, mechanism.as_bytes());
            let length = u32::try_from(message.len()).expect("a SCRAM message is short");
            out.extend_from_slice(&length.to_be_bytes());
            out.extend_from_slice(message);
        });
    }

    fn sasl_next(&mut self, message: &[u8]) {
        frame(self, front::PASSWORD, |out| out.extend_from_slice(message));
    }

    fn query(&mut self, text: &[u8]) {
        frame(self, front::QUERY, |out| string(out, text));
    }

    fn parse(&mut self, name: &[u8], text: &[u8], types: &[u8]) {
        frame(self, front::PARSE, |out| {
            string(out, name);
            string(out, text);
            let count = u16::try_from(types.len() / 4).expect("counted in a message before");
            out.extend_from_slice(&count.to_be_bytes());
            out.extend_from_slice(types);
        });
    }

    fn bind(&mut self, portal: &[u8], statement: &[u8], rest: &[u8]) {
        frame(self, front::BIND, |out| {
            string(out, portal);
            string(out, statement);
            out.extend_from_slice(rest);
        });
    }

    fn bind_plain(&mut self, statement: &[u8]) {
        self.bind(b"", statement, &[0; 6]);
    }

    fn describe(&mut self, target: Target, name: &[u8]) {
        frame(self, front::DESCRIBE, |out| {
            out.push(target_byte(target));
            string(out, name);
        });
    }

    fn execute(&mut self, portal: &[u8], max_rows: i32) {
        frame(self, front::EXECUTE, |out| {
            string(out, portal);
            out.extend_from_slice(&max_rows.to_be_bytes());
        });
    }

    fn close(&mut self, target: Target, name: &[u8]) {
        frame(self, front::CLOSE, |out| {
            out.push(target_byte(target));
            string(out, name);
        });
    }

    fn function_call(&mut self, function: u32, parameters: &[&str]) {
        frame(self, front::FUNCTION_CALL, |out| {
            let count = u16::try_from(parameters.len()).expect("a function of ours takes few parameters");
            out.extend_from_slice(&function.to_be_bytes());
            out.extend_from_slice(&[0; 2]);
            out.extend_from_slice(&count.to_be_bytes());
            for text in parameters {
                let length = u32::try_from(text.len()).expect("a parameter of ours is short");
                out.extend_from_slice(&length.to_be_bytes());
                out.extend_from_slice(text.as_bytes());
            }
            out.extend_from_slice(&[0; 2]);
        });
    }

    fn sync(&mut self) {
        frame(self, front::SYNC, |_| {});
    }

    fn flush(&mut self) {
        frame(self, front::FLUSH, |_| {});
    }

    fn terminate(&mut self) {
        frame(self, front::TERMINATE, |_| {});
    }
}
