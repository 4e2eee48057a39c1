//! Alternative spellings of a private name.

use weir_gems::store::mirror::Refusal;

use super::Setup;
use super::hooks::{ADD, spec, token};
use super::scripted::Scripted;

#[tokio::test]
async fn no_way_of_writing_a_private_name_gets_past_its_line() {
    let upstream = Scripted::start();
    let private = ["acme-tools", "ACME-TOOLS", "Acme_tools", "acme_Tools", "BILLING", "billing"];
    // A letter of another alphabet, a hyphen that is none of ASCII's, a full-width letter.
    let no_names = ["\u{430}cme-tools", "acme\u{2010}tools", "\u{ff41}cme-tools"];
    let others = ["acme.tools", "acmetools", "my-acme-tools", "rack"];
    let all = private.iter().chain(&no_names).chain(&others);
    let lines: Vec<_> = all.map(|name| upstream.gem(name, &[("99.0", [1; 32])])).collect();
    upstream.versions(&lines);
    let setup = Setup::new(&[("public", &upstream.url())]);
    let replica = setup.policy("private Acme-*\nprivate Billing").start().await;
    let looked = replica.sync().await;
    assert_eq!((looked.work.refused, looked.work.applied.gems), (6, 4));
    for name in private {
        let of_name = token().replace("one", "public");
        replica.hook(ADD, "", spec(name, "99.0", &of_name)).await;
    }
    assert_eq!(replica.mirror.work_off_hooks().await.unwrap().done, 6);
    let names = replica.index.get("/names").await;
    let mut names: Vec<_> = names.text().lines().skip(1).collect();
    names.sort_unstable();
    assert_eq!(names, others);
    let mut asked = upstream.asked();
    asked.sort_unstable();
    asked.dedup();
    let expected: Vec<_> = others.iter().map(|name| format!("/info/{name}")).collect();
    assert_eq!(asked, [&expected[..], &["/versions".to_owned()]].concat());
    let told = &replica.state().await.upstreams[0].refused;
    assert!(told.iter().all(|(_, reason)| *reason == Refusal::Policy), "{told:?}");
    assert!(replica.metrics().contains("weir_gems_mirror_left_out_total{upstream=\"public\"} 3"));
}
