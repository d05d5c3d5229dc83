//! What the two processes write to each other, as bytes. Numbers are big-endian; what has no fixed length is preceded by its own.

/// Something that goes over the socket between two processes of one machine.
pub(crate) trait Carry: Sized {
    /// Writes it.
    fn put(&self, out: &mut Vec<u8>);
    /// Reads it from the beginning of `from`; `None` if that is something else.
    fn take(from: &mut &[u8]) -> Option<Self>;
    /// Says what it consists of.
    #[cfg(test)]
    fn shape(out: &mut String);
}

/// Says what a field consists of.
#[cfg(test)]
pub(crate) fn shape_of<Whole, Field: Carry>(_: impl Fn(&Whole) -> &Field, out: &mut String) {
    Field::shape(out);
}

/// A struct is its fields, one after the other. Whoever adds one and does not name it here is told so by the compiler.
macro_rules! carries {
    ($name:ident { $($field:ident),* $(,)? }) => {
        impl $crate::takeover::Carry for $name {
            fn put(&self, out: &mut Vec<u8>) {
                let $name { $($field),* } = self;
                $($crate::takeover::Carry::put($field, out);)*
            }

            fn take(from: &mut &[u8]) -> Option<Self> {
                $(let $field = $crate::takeover::Carry::take(from)?;)*
                Some($name { $($field),* })
            }

            #[cfg(test)]
            fn shape(out: &mut String) {
                out.push('{');
                $(
                    out.push_str(concat!(" ", stringify!($field), ": "));
                    $crate::takeover::shape_of(|whole: &$name| &whole.$field, out);
                )*
                out.push_str(" }");
            }
        }
    };
}
pub(crate) use carries;

macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl Carry for $number {
            fn put(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_be_bytes());
            }

            fn take(from: &mut &[u8]) -> Option<Self> {
                let (number, rest) = from.split_first_chunk()?;
                *from = rest;
                Some(Self::from_be_bytes(*number))
            }

            #[cfg(test)]
            fn shape(out: &mut String) {
                out.push_str(stringify!($number));
            }
        }
    )*};
}
numbers!(u8, u16, u32, u64, i32, i64);

impl Carry for bool {
    fn put(&self, out: &mut Vec<u8>) {
        u8::from(*self).put(out);
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        match u8::take(from)? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    #[cfg(test)]
    fn shape(out: &mut String) {
        out.push_str("bool");
    }
}

impl<T: Carry> Carry for Vec<T> {
    fn put(&self, out: &mut Vec<u8>) {
        (self.len() as u64).put(out);
        self.iter().for_each(|one| one.put(out));
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        let count = u64::take(from)?;
        // Each takes a byte at least: nothing is made room for that cannot be there.
        (count <= from.len() as u64).then(|| (0..count).map(|_| T::take(from)).collect())?
    }

    #[cfg(test)]
    fn shape(out: &mut String) {
        out.push_str("many ");
        T::shape(out);
    }
}

impl Carry for String {
    fn put(&self, out: &mut Vec<u8>) {
        (self.len() as u64).put(out);
        out.extend_from_slice(self.as_bytes());
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        String::from_utf8(Vec::take(from)?).ok()
    }

    #[cfg(test)]
    fn shape(out: &mut String) {
        out.push_str("text");
    }
}

impl<T: Carry> Carry for Option<T> {
    fn put(&self, out: &mut Vec<u8>) {
        self.is_some().put(out);
        if let Some(one) = self {
            one.put(out);
        }
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        if bool::take(from)? { Some(Some(T::take(from)?)) } else { Some(None) }
    }

    #[cfg(test)]
    fn shape(out: &mut String) {
        out.push_str("maybe ");
        T::shape(out);
    }
}

impl<A: Carry, B: Carry> Carry for (A, B) {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
        self.1.put(out);
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        Some((A::take(from)?, B::take(from)?))
    }

    #[cfg(test)]
    fn shape(out: &mut String) {
        out.push('(');
        A::shape(out);
        out.push_str(", ");
        B::shape(out);
        out.push(')');
    }
}

/// What one process says to the other. `Hello` and `Refused` are the same in every version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Letter<Client> {
    /// The new one: it speaks this version of the protocol.
    Hello(u32),
    /// The old one: it goes on as it was, because of this.
    Refused(String),
    /// The old one: its process, the databases that nobody may enter (DISABLE), and the part of the process numbers that the new
    /// one draws from.
    Welcome(u32, Vec<String>, u32),
    /// The old one: the socket that comes along is used for this.
    Socket(String),
    /// The old one: there are no more sockets. The new one gets ready.
    Sockets,
    /// The new one: it could serve; whether two at a time would do harm by its configuration.
    Ready(bool),
    /// The old one: a client, whose socket comes along.
    Client(Client),
    /// The old one: that is all that there is now.
    Yours,
    /// The new one: it has got it, and waits for a last word.
    Mine,
    /// The old one: from here on all of that is the new one's.
    Go,
    /// The new one: somebody wants to cancel what runs in this session, which may be the old one's still.
    Cancel(i32, Vec<u8>),
}

impl<Client: Carry> Carry for Letter<Client> {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Letter::Hello(version) => (0_u8, *version).put(out),
            Letter::Refused(why) => (1_u8, why.clone()).put(out),
            Letter::Welcome(pid, disabled, part) => (2_u8, (*pid, (disabled.clone(), *part))).put(out),
            Letter::Socket(of) => (3_u8, of.clone()).put(out),
            Letter::Sockets => 4_u8.put(out),
            Letter::Ready(alone) => (5_u8, *alone).put(out),
            Letter::Client(client) => {
                6_u8.put(out);
                client.put(out);
            }
            Letter::Yours => 7_u8.put(out),
            Letter::Mine => 8_u8.put(out),
            Letter::Go => 9_u8.put(out),
            Letter::Cancel(pid, secret) => (10_u8, (*pid, secret.clone())).put(out),
        }
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        Some(match u8::take(from)? {
            0 => Letter::Hello(u32::take(from)?),
            1 => Letter::Refused(String::take(from)?),
            2 => Letter::Welcome(u32::take(from)?, Vec::take(from)?, u32::take(from)?),
            3 => Letter::Socket(String::take(from)?),
            4 => Letter::Sockets,
            5 => Letter::Ready(bool::take(from)?),
            6 => Letter::Client(Client::take(from)?),
            7 => Letter::Yours,
            8 => Letter::Mine,
            9 => Letter::Go,
            10 => Letter::Cancel(i32::take(from)?, Vec::take(from)?),
            _ => return None,
        })
    }

    #[cfg(test)]
    fn shape(out: &mut String) {
        Client::shape(out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_are_read_as_they_were_written_and_not_in_part() {
        let text = |text: &str| text.to_owned();
        for letter in [
            Letter::Hello(7),
            Letter::Refused(text("why")),
            Letter::Welcome(7, vec![text("a"), text("b")], 1),
            Letter::Socket(text("tcp 127.0.0.1:1")),
            Letter::Sockets,
            Letter::Ready(true),
            Letter::Client((Some(text("x")), -1_i64)),
            Letter::Yours,
            Letter::Mine,
            Letter::Go,
            Letter::Cancel(-7, vec![1, 2]),
        ] {
            let mut bytes = Vec::new();
            letter.put(&mut bytes);
            let mut rest = &bytes[..];
            assert_eq!(Letter::take(&mut rest), Some(letter));
            assert!(rest.is_empty());
            for end in 0..bytes.len() {
                assert_eq!(Letter::<(Option<String>, i64)>::take(&mut &bytes[..end]), None, "{bytes:?}");
            }
        }
        assert_eq!(Letter::<u8>::take(&mut &[11][..]), None);
        assert_eq!(Vec::<u8>::take(&mut &[0xff; 9][..]), None, "so much is not there");
    }
}
