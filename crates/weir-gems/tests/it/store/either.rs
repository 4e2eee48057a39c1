//! The suite by way of the type that stands for either store: nothing is asked of the wrong method.

mod sqlite {
    use weir_gems::store::EitherStore;

    fn either() -> Option<(tempfile::TempDir, EitherStore)> {
        let (folder, store) = crate::store::sqlite();
        Some((folder, EitherStore::Sqlite(store)))
    }

    suite!(either);
}

mod postgres {
    use weir_gems::store::EitherStore;

    use crate::store::postgres::Place;

    fn either() -> Option<(Place, EitherStore)> {
        let place = Place::new()?;
        let store = EitherStore::Postgres(place.store());
        Some((place, store))
    }

    suite!(either);
}
