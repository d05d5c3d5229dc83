//! SQLite's virtual file system over a [`Session`]: with `row_changes`, the only unsafe code of the workspace. Each callback turns pointers
//! into references and calls a safe function of the session.
//!
//! A connection has a file system of its own, so that the file system's name says which session a file belongs to. The
//! main database is opened first; every other file is refused. Journals and temporary files stay in memory.
//!
//! SQLite's contract, on which the reasons below stand ("OS Interface Objects" and "sqlite3_io_methods"): a pointer is
//! valid for the whole call, a file is passed after a successful `xOpen` only and never after `xClose`, and the calls of
//! one connection come one after another.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rusqlite::ffi;

use crate::error::Ended;
use crate::page::PAGE_SIZE;
use crate::session::Session;

/// A file system that is registered with SQLite while this value lives. The connection must be closed before.
pub(crate) struct Vfs {
    name: CString,
    vfs: *mut ffi::sqlite3_vfs,
    session: Arc<Mutex<Session>>,
}

// SAFETY (shape 1, a value with pointers moves between threads): `vfs` is this value's own allocation, SQLite guards its
// list of file systems by a mutex, and the session is locked for each use.
unsafe impl Send for Vfs {}

/// The file of a connection. SQLite allocates `szOsFile` bytes for it and passes a pointer to `base`.
#[repr(C)]
struct File {
    base: ffi::sqlite3_file,
    session: *const Mutex<Session>,
}

static METHODS: ffi::sqlite3_io_methods = ffi::sqlite3_io_methods {
    iVersion: 1,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(accept),
    xFileSize: Some(file_size),
    xLock: Some(lock),
    xUnlock: Some(accept),
    xCheckReservedLock: Some(check_reserved_lock),
    xFileControl: Some(file_control),
    xSectorSize: Some(sector_size),
    xDeviceCharacteristics: Some(device_characteristics),
    xShmMap: None,
    xShmLock: None,
    xShmBarrier: None,
    xShmUnmap: None,
    xFetch: None,
    xUnfetch: None,
};

impl Vfs {
    /// Registers a file system for the session. The name is unique as long as the session lives.
    pub(crate) fn register(session: Arc<Mutex<Session>>) -> Result<Vfs, rusqlite::Error> {
        let pointer = Arc::as_ptr(&session);
        let name = CString::new(format!("pages-{pointer:p}")).expect("no zero byte in the name");
        // SAFETY (shape 2, a call into SQLite): no argument, or pointers to values that outlive the registration. The
        // system's own file system is copied for what asks for no file: clock, sleep and randomness.
        let (vfs, code) = unsafe {
            ffi::sqlite3_initialize();
            let system = ffi::sqlite3_vfs_find(std::ptr::null());
            let vfs = Box::into_raw(Box::new(ffi::sqlite3_vfs {
                szOsFile: size_of::<File>() as c_int,
                pNext: std::ptr::null_mut(),
                zName: name.as_ptr(),
                pAppData: pointer.cast_mut().cast(),
                xOpen: Some(open),
                xDelete: Some(delete),
                xAccess: Some(access),
                xFullPathname: Some(full_pathname),
                ..*system
            }));
            (vfs, ffi::sqlite3_vfs_register(vfs, 0))
        };
        let registered = Vfs { name, vfs, session };
        if code == ffi::SQLITE_OK {
            Ok(registered)
        } else {
            Err(rusqlite::Error::SqliteFailure(ffi::Error::new(code), None))
        }
    }

    pub(crate) fn name(&self) -> &CStr {
        &self.name
    }

    pub(crate) fn session(&self) -> MutexGuard<'_, Session> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Vfs {
    fn drop(&mut self) {
        // SAFETY (shape 2, a call into SQLite): the value was registered by `register`.
        unsafe { ffi::sqlite3_vfs_unregister(self.vfs) };
        if self.session().is_open {
            // The connection could not be closed: its file still points here, so nothing is freed.
            std::mem::forget((self.session.clone(), std::mem::take(&mut self.name)));
            return;
        }
        // SAFETY (shape 3, an allocation comes back): `vfs` is the box of `register`, and no file uses it.
        drop(unsafe { Box::from_raw(self.vfs) });
    }
}

/// Runs an action on the session; a panic must not unwind into C and becomes an error.
fn guarded(session: *const Mutex<Session>, action: impl FnOnce(&mut Session) -> c_int) -> c_int {
    // SAFETY (shape 4, a pointer becomes a reference): `Vfs` keeps the session while a file of it is open.
    let session = unsafe { &*session };
    let run = || session.lock().map_or(ffi::SQLITE_IOERR, |mut session| action(&mut session));
    catch_unwind(AssertUnwindSafe(run)).unwrap_or(ffi::SQLITE_IOERR)
}

/// Runs an action on the session of a file.
fn with(file: *mut ffi::sqlite3_file, action: impl FnOnce(&mut Session) -> c_int) -> c_int {
    // SAFETY (shape 4, a pointer becomes a reference): the file is a `File` that `open` has filled.
    guarded(unsafe { (*file.cast::<File>()).session }, action)
}

/// Stores an answer where SQLite wants it.
fn answer<T>(place: *mut T, value: T) -> c_int {
    if !place.is_null() {
        // SAFETY (shape 5, an answer through a pointer): SQLite passes a valid place, or none for `pOutFlags`.
        unsafe { place.write(value) };
    }
    ffi::SQLITE_OK
}

/// The result code of a safe function; the cause stays in the session.
fn code(result: Result<(), Ended>, failure: c_int) -> c_int {
    result.map_or(failure, |()| ffi::SQLITE_OK)
}

// The functions below are `unsafe` by their type alone; what they do with pointers is in the functions above, but for the
// buffers of `read`, `write` and `full_pathname` and the file of `open`.

unsafe extern "C" fn open(
    vfs: *mut ffi::sqlite3_vfs,
    _: ffi::sqlite3_filename,
    file: *mut ffi::sqlite3_file,
    flags: c_int,
    out_flags: *mut c_int,
) -> c_int {
    // SAFETY (shape 4, a pointer becomes a reference): `register` has set `pAppData` to the session.
    let session: *const Mutex<Session> = unsafe { (*vfs).pAppData }.cast_const().cast();
    let opened = guarded(session, |session| {
        let is_second = std::mem::replace(&mut session.is_open, true);
        if is_second { ffi::SQLITE_CANTOPEN } else { ffi::SQLITE_OK }
    });
    let methods = if opened == ffi::SQLITE_OK { &raw const METHODS } else { std::ptr::null() };
    answer(file.cast(), File { base: ffi::sqlite3_file { pMethods: methods }, session });
    answer(out_flags, flags);
    opened
}

unsafe extern "C" fn close(file: *mut ffi::sqlite3_file) -> c_int {
    with(file, |session| {
        session.is_open = false;
        ffi::SQLITE_OK
    })
}

unsafe extern "C" fn read(
    file: *mut ffi::sqlite3_file,
    into: *mut c_void,
    length: c_int,
    offset: i64,
) -> c_int {
    // SAFETY (shape 6, a buffer becomes a slice): `into` has `length` bytes, which may be uninitialized.
    let into = unsafe { std::slice::from_raw_parts_mut(into.cast::<MaybeUninit<u8>>(), length as usize) };
    with(file, |session| match session.read(offset as u64, into) {
        Ok(false) => ffi::SQLITE_OK,
        Ok(true) => ffi::SQLITE_IOERR_SHORT_READ,
        Err(_) => ffi::SQLITE_IOERR_READ,
    })
}

unsafe extern "C" fn write(
    file: *mut ffi::sqlite3_file,
    from: *const c_void,
    length: c_int,
    offset: i64,
) -> c_int {
    // SAFETY (shape 6, a buffer becomes a slice): `from` has `length` initialized bytes.
    let from = unsafe { std::slice::from_raw_parts(from.cast::<u8>(), length as usize) };
    with(
        file,
        |session| if session.write(offset as u64, from) { ffi::SQLITE_OK } else { ffi::SQLITE_IOERR_WRITE },
    )
}

/// Page 1 tells the size, and SQLite has written it before it truncates.
unsafe extern "C" fn truncate(_: *mut ffi::sqlite3_file, _: i64) -> c_int {
    ffi::SQLITE_OK
}

/// Nothing is on a disk, and the locks of a connection concern it alone.
unsafe extern "C" fn accept(_: *mut ffi::sqlite3_file, _: c_int) -> c_int {
    ffi::SQLITE_OK
}

unsafe extern "C" fn file_size(file: *mut ffi::sqlite3_file, size: *mut i64) -> c_int {
    with(file, |session| match session.size() {
        Ok(pages) => answer(size, i64::from(pages) * PAGE_SIZE as i64),
        Err(_) => ffi::SQLITE_IOERR_FSTAT,
    })
}

unsafe extern "C" fn lock(file: *mut ffi::sqlite3_file, _: c_int) -> c_int {
    with(file, |session| code(session.lock(), ffi::SQLITE_IOERR_LOCK))
}

unsafe extern "C" fn check_reserved_lock(_: *mut ffi::sqlite3_file, is_reserved: *mut c_int) -> c_int {
    answer(is_reserved, 0)
}

unsafe extern "C" fn file_control(_: *mut ffi::sqlite3_file, _: c_int, _: *mut c_void) -> c_int {
    ffi::SQLITE_NOTFOUND
}

unsafe extern "C" fn sector_size(_: *mut ffi::sqlite3_file) -> c_int {
    PAGE_SIZE as c_int
}

unsafe extern "C" fn device_characteristics(_: *mut ffi::sqlite3_file) -> c_int {
    ffi::SQLITE_IOCAP_POWERSAFE_OVERWRITE
}

unsafe extern "C" fn delete(_: *mut ffi::sqlite3_vfs, _: *const c_char, _: c_int) -> c_int {
    ffi::SQLITE_IOERR_DELETE_NOENT
}

unsafe extern "C" fn access(
    _: *mut ffi::sqlite3_vfs,
    _: *const c_char,
    _: c_int,
    exists: *mut c_int,
) -> c_int {
    answer(exists, 0)
}

unsafe extern "C" fn full_pathname(
    _: *mut ffi::sqlite3_vfs,
    path: *const c_char,
    length: c_int,
    into: *mut c_char,
) -> c_int {
    // SAFETY (shape 6, a buffer becomes a slice): `path` ends with a zero byte, and `into` has `length` bytes.
    unsafe {
        let path = CStr::from_ptr(path).to_bytes_with_nul();
        if path.len() > length as usize {
            return ffi::SQLITE_CANTOPEN;
        }
        into.copy_from_nonoverlapping(path.as_ptr().cast(), path.len());
    }
    ffi::SQLITE_OK
}
