//! The contract through [`weir_gems::store::GemStore`], which must forward each call to the right method.

mod sqlite {
    use weir_gems::store::GemStore;

    fn chosen() -> Option<(tempfile::TempDir, GemStore)> {
        let (folder, store) = crate::store::sqlite();
        Some((folder, GemStore::Sqlite(store)))
    }

    suite!(chosen);
}

mod postgres {
    use weir_gems::store::GemStore;

    use crate::store::postgres::Place;

    fn chosen() -> Option<(Place, GemStore)> {
        let place = Place::new()?;
        let store = GemStore::Postgres(place.store());
        Some((place, store))
    }

    suite!(chosen);
}
