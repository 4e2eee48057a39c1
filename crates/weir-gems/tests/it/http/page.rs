//! The page of a gem, for people.

use weir_gems::package::sample::Sample;

use super::Index;

#[tokio::test]
async fn a_gem_has_a_page_where_that_is_allowed() {
    let index = Index::new().await;
    for version in ["1.0", "2.0", "2.0.pre1"] {
        assert!(index.push(Sample::new("shop", version).build()).await.status.is_success());
    }
    assert_eq!(index.get("/gems/shop").await.status.as_u16(), 404);
    index.change(|settings| settings.public_pages = true);
    let page = index.get("/gems/shop").await;
    assert_eq!(page.header("content-type"), "text/html; charset=utf-8");
    assert!(page.header("content-security-policy").starts_with("default-src 'none'"));
    let places = [">2.0<", ">2.0.pre1<", ">1.0<"].map(|it| page.text().find(it).unwrap());
    assert!(places.is_sorted(), "the newest version first: {}", page.text());
    let same = [("if-none-match", page.header("etag"))];
    assert_eq!(index.ask("GET", "/gems/shop", &same, "").await.status.as_u16(), 304);
    assert_eq!(index.get("/gems/%3Cx%3E").await.status.as_u16(), 404);
}
