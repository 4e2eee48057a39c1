//! The policy that was last in force, and names that are local without a rule.

use crate::store::StoreError;
use crate::store::column::signed;
use crate::store::database::{Database, Row, query_one};

pub(in crate::store) async fn policy(
    database: &impl Database,
) -> Result<Option<String>, StoreError> {
    let row = query_one(database, "SELECT rules FROM mirror_policy", &[]).await?;
    row.map(|row| row.get(0)).transpose()
}

pub(in crate::store) async fn keep_policy(
    database: &impl Database,
    rules: Option<String>,
) -> Result<(), StoreError> {
    database.execute("DELETE FROM mirror_policy", &[]).await?;
    if let Some(rules) = rules {
        let sql = "INSERT INTO mirror_policy (id, rules) VALUES (1, $1)";
        database.execute(sql, &[&rules]).await?;
    }
    Ok(())
}

pub(in crate::store) async fn local_names(
    database: &impl Database,
    names_max: usize,
) -> Result<Vec<String>, StoreError> {
    let sql =
        "SELECT name FROM gems WHERE id NOT IN (SELECT gem FROM origins) ORDER BY id LIMIT $1";
    let rows = database.query(sql, &[&signed(names_max)]).await?;
    rows.iter().map(|row| row.get(0)).collect()
}
