//! Rows that a connection changes, as SQLite's pre-update hook tells them ("The pre-update hook"). With `vfs`, the only
//! unsafe code of the workspace.
//!
//! A row is noted once, with its values before its first change: whatever is taken back by a savepoint later, its values of
//! now are those in the table. Tables without row numbers are not noted.

use std::collections::{BTreeMap, HashMap};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rusqlite::types::Value;
use rusqlite::{Connection, ffi};

/// Rows of a table by number: their values before the first change; `None`: the row was not there.
pub type Rows = BTreeMap<i64, Option<Vec<Value>>>;

/// Rows that were changed, by table.
pub type Tables = HashMap<String, Rows>;

/// Notes of the hook.
#[derive(Default)]
struct Noted {
    tables: Tables,
    failed: bool,
}

/// Notes the rows that a connection changes, while this value lives. It must be dropped before the connection.
pub(crate) struct RowChanges {
    connection: *mut ffi::sqlite3,
    noted: Box<Mutex<Noted>>,
}

// SAFETY (shape 1, a value with pointers moves between threads): the connection moves with this value, and what the hook
// writes is locked for each use.
unsafe impl Send for RowChanges {}

impl RowChanges {
    /// Notes the rows that this connection changes.
    pub(crate) fn watch(connection: &Connection) -> RowChanges {
        let noted = Box::<Mutex<Noted>>::default();
        let place: *const Mutex<Noted> = &raw const *noted;
        // SAFETY (shape 2, a call into SQLite): the handle is that of an open connection, and the place lives until the hook
        // is taken away.
        let connection = unsafe {
            let handle = connection.handle();
            ffi::sqlite3_preupdate_hook(handle, Some(changes), place.cast_mut().cast());
            handle
        };
        RowChanges { connection, noted }
    }

    /// The rows noted until now, which are forgotten. `None`: a value could not be read.
    pub(crate) fn take(&self) -> Option<Tables> {
        let noted = std::mem::take(&mut *locked(&self.noted));
        (!noted.failed).then_some(noted.tables)
    }

    /// Goes on from these rows instead of those noted until now.
    pub(crate) fn put_back(&self, tables: Tables) {
        locked(&self.noted).tables = tables;
    }
}

impl Drop for RowChanges {
    fn drop(&mut self) {
        // SAFETY (shape 2, a call into SQLite): the connection is still open, and has no hook of others.
        unsafe { ffi::sqlite3_preupdate_hook(self.connection, None, std::ptr::null_mut()) };
    }
}

fn locked(noted: &Mutex<Noted>) -> MutexGuard<'_, Noted> {
    noted.lock().unwrap_or_else(PoisonError::into_inner)
}

unsafe extern "C" fn changes(
    noted: *mut c_void,
    connection: *mut ffi::sqlite3,
    operation: c_int,
    _: *const c_char,
    table: *const c_char,
    old: i64,
    new: i64,
) {
    // SAFETY (shape 4, a pointer becomes a reference): `watch` has set the place, and SQLite passes the name of a table.
    let (noted, table) = unsafe { (&*noted.cast::<Mutex<Noted>>(), CStr::from_ptr(table)) };
    let note = || {
        let mut noted = locked(noted);
        let Ok(table) = table.to_str() else { return };
        if !noted.tables.contains_key(table) {
            noted.tables.insert(table.to_owned(), Rows::new());
        }
        let Noted { tables, failed } = &mut *noted;
        let Some(rows) = tables.get_mut(table) else { return };
        if operation != ffi::SQLITE_INSERT && !rows.contains_key(&old) {
            let values = values(connection);
            *failed |= values.is_none();
            rows.insert(old, values);
        }
        if operation != ffi::SQLITE_DELETE {
            // A row that had this number has been noted when it lost it.
            rows.entry(new).or_insert(None);
        }
    };
    // A panic must not unwind into C. The lock is free again, and the row is missing: `failed` cannot be set.
    if catch_unwind(AssertUnwindSafe(note)).is_err() {
        locked(noted).failed = true;
    }
}

/// The row's values before the change.
fn values(connection: *mut ffi::sqlite3) -> Option<Vec<Value>> {
    // SAFETY (shape 2, a call into SQLite): only the hook calls this, while SQLite changes a row.
    let count = unsafe { ffi::sqlite3_preupdate_count(connection) };
    (0..count).map(|column| value(connection, column)).collect()
}

fn value(connection: *mut ffi::sqlite3, column: c_int) -> Option<Value> {
    let mut found = std::ptr::null_mut();
    // SAFETY (shape 2, a call into SQLite): as above; the value stays valid until the hook returns.
    if unsafe { ffi::sqlite3_preupdate_old(connection, column, &raw mut found) } != ffi::SQLITE_OK {
        return None;
    }
    // SAFETY (shape 6, a buffer becomes a slice): SQLite gives the length of the buffer after the buffer.
    let bytes = |of: *const u8| unsafe {
        let length = ffi::sqlite3_value_bytes(found) as usize;
        if length == 0 { Vec::new() } else { std::slice::from_raw_parts(of, length).to_vec() }
    };
    // SAFETY (shape 2, a call into SQLite): the value is asked for by its own type.
    unsafe {
        Some(match ffi::sqlite3_value_type(found) {
            ffi::SQLITE_INTEGER => Value::Integer(ffi::sqlite3_value_int64(found)),
            ffi::SQLITE_FLOAT => Value::Real(ffi::sqlite3_value_double(found)),
            ffi::SQLITE_TEXT => Value::Text(String::from_utf8(bytes(ffi::sqlite3_value_text(found))).ok()?),
            ffi::SQLITE_BLOB => Value::Blob(bytes(ffi::sqlite3_value_blob(found).cast())),
            _ => Value::Null,
        })
    }
}
