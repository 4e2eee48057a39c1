//! Looks up users and groups in the system's databases.

use std::ffi::{CStr, CString};
use std::mem::MaybeUninit;

/// Limit of an entry of the user and group databases; a larger one is rejected (`ERANGE`).
const ENTRY_BYTES_MAX: usize = 64 * 1024;
/// Limit of the supplementary groups of one user that are used; the kernel allows 65,536.
const GROUPS_MAX: usize = 1_024;

/// The user and the groups that a process runs as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// Supplementary groups.
    pub(crate) groups: Vec<u32>,
    /// None: only a group was given, or a uid without an entry.
    pub(crate) name: Option<String>,
    pub(crate) home: Option<String>,
}

struct ProcessUser {
    uid: u32,
    gid: u32,
    name: CString,
    home: CString,
}

impl Identity {
    /// Looks up `user` and `group`, which are names or numbers. Without a user, returns the current
    /// user in `group`.
    pub(crate) fn find(user: Option<&str>, group: Option<&str>) -> Result<Self, String> {
        let gid = group.map(find_group).transpose()?;
        let Some(user) = user else {
            let uid = rustix::process::geteuid().as_raw();
            let gid = gid.unwrap_or_else(|| rustix::process::getegid().as_raw());
            return Ok(Self { uid, gid, groups: vec![gid], name: None, home: None });
        };
        let Some(found) = find_user(user)? else {
            let uid = user.parse().map_err(|_| format!("there is no user {user}"))?;
            let gid = gid.ok_or_else(|| format!("no user has the number {uid}; give a group"))?;
            return Ok(Self { uid, gid, groups: vec![gid], name: None, home: None });
        };
        let gid = gid.unwrap_or(found.gid);
        Ok(Self {
            uid: found.uid,
            gid,
            groups: groups_of(&found.name, gid),
            name: Some(found.name.to_string_lossy().into_owned()),
            home: Some(found.home.to_string_lossy().into_owned()),
        })
    }
}

/// Returns the name of a user. None: there is none with this number, or it cannot be looked up. Blocks: the system may ask
/// a directory service.
#[must_use]
pub fn user_name(uid: u32) -> Option<String> {
    let user = find_user(&uid.to_string()).ok().flatten()?;
    Some(user.name.to_string_lossy().into_owned())
}

/// Returns the user with this name or number. None: there is no such user.
fn find_user(user: &str) -> Result<Option<ProcessUser>, String> {
    let name = CString::new(user).map_err(|_| format!("{user:?} can't be a user's name"))?;
    let number: Option<u32> = user.parse().ok();
    let mut entry = MaybeUninit::<libc::passwd>::uninit();
    let mut text = vec![0; ENTRY_BYTES_MAX];
    let mut result = std::ptr::null_mut();
    // SAFETY: entry, text (with its length) and result are valid for writing during the call; the
    // name ends with NUL.
    let error = unsafe {
        let (entry, text, bytes) = (entry.as_mut_ptr(), text.as_mut_ptr(), text.len());
        match number {
            Some(uid) => libc::getpwuid_r(uid, entry, text, bytes, &raw mut result),
            None => libc::getpwnam_r(name.as_ptr(), entry, text, bytes, &raw mut result),
        }
    };
    if result.is_null() {
        return if is_absence(error) { Ok(None) } else { Err(failure("user", user, error)) };
    }
    // SAFETY: a result that isn't null points to the entry, which is filled in; its strings lie in
    // `text`, which still lives, and end with NUL.
    let found = unsafe {
        let entry = entry.assume_init_ref();
        ProcessUser {
            uid: entry.pw_uid,
            gid: entry.pw_gid,
            name: CStr::from_ptr(entry.pw_name).to_owned(),
            home: CStr::from_ptr(entry.pw_dir).to_owned(),
        }
    };
    Ok(Some(found))
}

fn find_group(group: &str) -> Result<u32, String> {
    if let Ok(number) = group.parse() {
        return Ok(number);
    }
    let name = CString::new(group).map_err(|_| format!("{group:?} can't be a group's name"))?;
    let mut entry = MaybeUninit::<libc::group>::uninit();
    let mut text = vec![0; ENTRY_BYTES_MAX];
    let mut result = std::ptr::null_mut();
    // SAFETY: entry, text (with its length) and result are valid for writing during the call; the
    // name ends with NUL.
    let error = unsafe {
        let (entry, bytes) = (entry.as_mut_ptr(), text.len());
        libc::getgrnam_r(name.as_ptr(), entry, text.as_mut_ptr(), bytes, &raw mut result)
    };
    if result.is_null() {
        let absent = || format!("there is no group {group}");
        return Err(if is_absence(error) { absent() } else { failure("group", group, error) });
    }
    // SAFETY: a result that isn't null points to the entry, which is filled in.
    Ok(unsafe { entry.assume_init_ref() }.gr_gid)
}

/// Returns the groups of `user`, `gid` first.
fn groups_of(user: &CStr, gid: u32) -> Vec<u32> {
    let mut groups = vec![gid; GROUPS_MAX];
    let mut count = libc::c_int::try_from(GROUPS_MAX).unwrap_or(libc::c_int::MAX);
    // SAFETY: `count` is the room in `groups`, which is valid for writing; the name ends with NUL.
    let found =
        unsafe { libc::getgrouplist(user.as_ptr(), gid, groups.as_mut_ptr(), &raw mut count) };
    // -1: there are more, and the first GROUPS_MAX are filled in.
    let count = if found < 0 { GROUPS_MAX } else { usize::try_from(count).unwrap_or(0) };
    groups.truncate(count.max(1));
    groups
}

/// Returns whether an error means "not found": getpwnam_r(3) lists the errors of various systems.
fn is_absence(error: libc::c_int) -> bool {
    [0, libc::ENOENT, libc::ESRCH, libc::EBADF, libc::EPERM].contains(&error)
}

fn failure(kind: &str, name: &str, error: libc::c_int) -> String {
    format!("{kind} {name} can't be looked up: {}", std::io::Error::from_raw_os_error(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_is_found_by_name_and_number() {
        assert_eq!(user_name(0).as_deref(), Some("root"));
        let by_name = Identity::find(Some("root"), None).expect("found");
        assert_eq!((by_name.uid, by_name.gid), (0, 0));
        assert_eq!(by_name.groups.first(), Some(&0));
        assert_eq!(by_name.name.as_deref(), Some("root"));
        assert_eq!(Identity::find(Some("0"), Some("root")), Ok(by_name));
    }

    #[test]
    fn an_unknown_user_is_named_in_the_error() {
        let error = |user, group| Identity::find(user, group).expect_err("not there");
        assert_eq!(error(Some("no-such-user"), None), "there is no user no-such-user");
        assert_eq!(error(None, Some("no-such-group")), "there is no group no-such-group");
        let text = "no user has the number 4000000000; give a group";
        assert_eq!(error(Some("4000000000"), None), text);
        let bare = Identity::find(Some("4000000000"), Some("4000000001")).expect("numbers");
        assert_eq!(
            (bare.uid, bare.gid, bare.groups),
            (4_000_000_000, 4_000_000_001, vec![4_000_000_001])
        );
    }
}
