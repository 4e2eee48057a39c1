//! Yanks over HTTP.

use weir_gems::package::sample::Sample;
use weir_gems::store::Scope;

use super::Index;

#[tokio::test]
async fn a_yank_answers_what_gem_yank_shows() {
    let index = Index::new().await;
    index.push_sample(&Sample::new("a", "1.0")).await;
    index.push_sample(&Sample::new("a", "1.0").for_platform("java")).await;
    let answer = index.yank("gem_name=a&version=1.0&platform=java").await;
    assert_eq!(
        (answer.status.as_u16(), answer.text()),
        (200, "Successfully deleted gem: a (1.0-java)\n")
    );
    for (form, status) in [
        ("gem_name=a&version=1.0&platform=java", 422),
        ("gem_name=a&version=2.0", 404),
        ("gem_name=b&version=1.0", 404),
        ("gem_name=a", 400),
    ] {
        assert_eq!(index.yank(form).await.status.as_u16(), status, "{form}");
    }
    let path = "/api/v1/gems/yank?gem_name=a&version=1.0";
    let answer = index.ask("DELETE", path, &[("authorization", &*index.key)], "").await;
    assert_eq!(answer.status.as_u16(), 200, "{}", answer.text());
    assert_eq!(index.get("/names").await.text(), "---\n");
}

#[tokio::test]
async fn a_yank_needs_a_key_for_it() {
    let index = Index::new().await;
    index.push_sample(&Sample::new("a", "1.0")).await;
    let push_only = index.new_key(|key| key.scopes = vec![Scope::PushRubygem]).await;
    let others = index.new_key(|key| key.gems = vec!["b*".parse().unwrap()]).await;
    for (key, status) in [("", 401), ("weir_x", 401), (&*push_only, 403), (&*others, 403)] {
        let form = "gem_name=a&version=1.0";
        let headers = [("authorization", key)];
        let answer = index.ask("DELETE", "/api/v1/gems/yank", &headers, form).await;
        assert_eq!(answer.status.as_u16(), status, "{key}: {}", answer.text());
    }
    index.change(|settings| settings.limits.form_bytes_max = 10);
    assert_eq!(index.yank("gem_name=a&version=1.0").await.status.as_u16(), 413);
    assert_eq!(index.get("/info/a").await.text().lines().count(), 2);
}
