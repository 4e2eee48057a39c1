//! The recorded content of upstreams' `/versions`, by name.

use crate::mirror::prefix::Prefix;
use crate::store::StoreError;
use crate::store::column::name;
use crate::store::database::{Database, Row};
use crate::store::mirror::Noted;

pub(in crate::store) async fn of_prefix(
    database: &impl Database,
    upstream: &str,
    prefix: Prefix,
) -> Result<Vec<Noted>, StoreError> {
    // Names are ASCII: all names with a prefix sort between the prefix and the prefix followed by
    // DEL.
    let bytes: Vec<u8> = prefix.0.into_iter().filter(|byte| *byte != 0).collect();
    let first = String::from_utf8_lossy(&bytes).into_owned();
    let last = format!("{first}\u{7f}");
    let sql = "SELECT name, md5 FROM upstream_gems
         WHERE upstream = (SELECT id FROM upstreams WHERE name = $1)
           AND name >= $2 AND name <= $3 AND md5 IS NOT NULL
         ORDER BY name";
    let mut all = Vec::new();
    for row in database.query(sql, &[&upstream, &first, &last]).await? {
        let name = name(&row.get::<String>(0)?)?;
        if Prefix::of(name.as_str()) == prefix {
            all.push(Noted { name, md5: Some(row.digest(1)?) });
        }
    }
    Ok(all)
}
