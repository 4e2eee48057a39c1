//! Users and tokens of the console.

use weir_access::{PasswordHash, Role};

use super::*;

pub(super) const HASH: &str = "$argon2id$v=19$m=19456,t=2,p=1$MTIzNDU2Nzg5MDEyMzQ1Ng$MTIzNDU2Nzg5MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTI";

#[test]
fn users_and_tokens_are_read_and_their_secrets_are_not_shown() {
    let text = format!(
        "[console]\nlisten = \"0.0.0.0:7420\"\n[console.users.ann]\npassword_hash = \"{HASH}\"\nrole = \"viewer\"\n\
         [console.users.\"ben@example.org\"]\npassword_hash = \"{HASH}\"\nrole = \"admin\"\n\
         [console.tokens.ci]\ntoken = {{ env = \"DATABASE_URL\" }}\nrole = \"operator\"\n"
    );
    let loaded = load(&text).unwrap_or_else(|errors| panic!("{errors}"));
    let console = &loaded.settings.console;
    assert_eq!(console.users["ann"].role, Role::Viewer);
    assert_eq!(console.users["ben@example.org"].role, Role::Admin);
    assert_eq!(console.tokens["ci"].role, Role::Operator);
    let hash = console.users["ann"].password_hash.as_ref().map(PasswordHash::expose);
    assert_eq!(hash, Some(HASH));
    let shown: Vec<_> = loaded.values.iter().map(|value| &value.shown).collect();
    assert!(shown.iter().all(|shown| !shown.contains("MTIz") && !shown.contains("correct-horse")));
    let hash = loaded.values.iter().find(|it| it.path == "console.users.ann.password_hash");
    assert_eq!(hash.expect("read").shown, "\"$argon2id$v=19$m=19456,t=2,p=1$..\"");
}

#[test]
fn hostile_users_and_tokens_are_errors_with_their_lines() {
    let text = format!(
        r#"
[console]
password = {{ env = "PASSWORD" }}
[console.users.admin]
password_hash = "{HASH}"
role = "admin"
[console.users.anonymous]
password_hash = "{HASH}"
role = "viewer"
[console.users."has space"]
password_hash = "{HASH}"
role = "viewer"
[console.users.ann]
password_hash = "hunter2"
role = "root"
[console.users.ben]
password_hash = "{}"
[console.users.eve]
password_hash = "{}"
role = "viewer"
[console.users.fay]
role = "viewer"
[console.tokens.ci]
token = "in the file"
[console.tokens.short]
token = {{ env = "PASSWORD" }}
role = "viewer"
"#,
        HASH.replace("m=19456", "m=4194304"),
        HASH.replace("argon2id", "argon2i")
    );
    let errors = errors(&text);
    assert!(!errors.contains("hunter2") && !errors.contains("MTIz"), "{errors}");
    insta::assert_snapshot!(errors, @r#"
    weir.toml:3:12: console.password: admin is the user with this password: rename console.users.admin, or remove console.password
    weir.toml:7:16: console.users.anonymous: this is the name of visitors without a login; choose another one
    weir.toml:10:16: console.users: "has space" is no name; a name has 1 to 64 letters, digits and . _ - @
    weir.toml:14:17: console.users.ann.password_hash: this is no Argon2id hash; run `weir console hash-password` and paste its output
    weir.toml:15:8: console.users.ann.role: "root" is none of "viewer", "operator", "admin"
    weir.toml:16:16: console.users.ben.role is missing
    weir.toml:17:17: console.users.ben.password_hash: the hash has m = 4194304, and 7168 to 262144 are accepted; run `weir console hash-password`
    weir.toml:19:17: console.users.eve.password_hash: the hash was made by another algorithm than Argon2id; run `weir console hash-password`
    weir.toml:21:16: console.users.fay.password_hash is missing
    weir.toml:23:17: console.tokens.ci.role is missing
    weir.toml:24:9: console.tokens.ci.token: a secret must not be in this file; write { env = "NAME" } or { file = "PATH" }
    weir.toml:26:9: console.tokens.short.token: the token has fewer than 16 characters
    "#);
}
