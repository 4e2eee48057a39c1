//! Handler of `POST /api/v1/gems`: pushes a gem.
//!
//! The gem is received into a temporary file, validated, moved to the name of its digest, and then
//! added to the store. A crash at any point leaves at most a file that no release refers to.

use hyper::{Response, StatusCode};
use weir_base::clock::Timestamp;
use weir_net::server::ResponseBody;

use super::authorize::check_gem;
use super::patient::RequestBody;
use super::receive::{Received, blocking};
use super::representation::TEXT;
use super::{Answer, Call, Failure, Gems};
use crate::files::{Arriving, Kept};
use crate::marshal::gemspec_rz;
use crate::metrics::Limit;
use crate::package::{Package, PackageError, Specification, read};
use crate::release::{Checksum, Dependencies, Identity, Release, RequirementLine};
use crate::store::{Conflict, NewRelease, PushError, Pushed, Scope};

impl Gems {
    pub(super) async fn push(&self, call: &Call<'_>, body: RequestBody) -> Answer {
        let headers = &call.request.headers;
        self.authorize(call, Scope::PushRubygem).await?;
        // A reload may have changed the limit.
        self.pushes.set_limit(call.settings.limits.pushes_max);
        let _permit = self.pushes.try_acquire().map_err(|full| {
            self.metrics.limit_hit(Limit::PushesMax);
            Failure::new(StatusCode::SERVICE_UNAVAILABLE, full)
        })?;
        let Received { file, has_attestations } = self.receive_gem(headers, body).await?;
        let (file, package) = self.judge(file).await?;
        // The upload may have taken long. Check the key again, because it may have been revoked or
        // have expired meanwhile.
        let key = self.authorize(call, Scope::PushRubygem).await?;
        check_gem(&key, &package.specification.name)?;
        let now = self.clock.now();
        let new = new_release(&package, now)?;
        let full_name = format!("{}-{}", new.name, new.release.identity);
        let pushed = self.keep(file, new, now).await?;
        tracing::info!(gem = full_name, key = key.id, "a gem was pushed");
        Ok(answer(&package.specification, &pushed, has_attestations))
    }

    /// Reads and validates the file on a blocking thread.
    async fn judge(&self, mut file: Arriving) -> Result<(Arriving, Package), Failure> {
        let settings = self.settings.load_full();
        let judged = blocking(move || {
            let package = read(file.read_again()?, &settings.limits.package);
            Ok((file, package))
        });
        let (file, package) = judged.await?;
        let package = package.inspect_err(|error| {
            if matches!(error, PackageError::Exceeded { .. } | PackageError::Entries(_)) {
                self.metrics.limit_hit(Limit::Package);
            }
        })?;
        package.specification.name.check_for_push().map_err(unprocessable)?;
        Ok((file, package))
    }

    /// Stores the file first, and then the release that refers to it.
    async fn keep(
        &self,
        file: Arriving,
        new: NewRelease,
        now: Timestamp,
    ) -> Result<Pushed, Failure> {
        let (files, checksum) = (self.files.clone(), new.release.checksum);
        let kept = blocking(move || files.keep(file, checksum)).await?;
        let pushed = self.store.push(new, now).await;
        if let Err(PushError::Conflict(conflict)) = &pushed {
            self.forget(kept, conflict, checksum).await;
        }
        Ok(pushed?)
    }

    /// Removes a rejected file, unless a release may refer to it or another request may be about to
    /// add one.
    async fn forget(&self, kept: Kept, conflict: &Conflict, checksum: Checksum) {
        if kept == Kept::Known || conflict.is_about_the_same_file() {
            return;
        }
        let files = self.files.clone();
        // If this fails, the file remains, but no release refers to it.
        let _ = blocking(move || files.remove(checksum)).await;
    }
}

fn unprocessable(error: impl ToString) -> Failure {
    Failure::new(StatusCode::UNPROCESSABLE_ENTITY, error)
}

fn new_release(package: &Package, now: Timestamp) -> Result<NewRelease, Failure> {
    let specification = &package.specification;
    let list = specification.runtime_dependencies();
    let list: Vec<_> = list.map(|it| (it.name.clone(), it.requirement.clone())).collect();
    let about = serde_json::to_string(&specification.about).map_err(unprocessable)?;
    Ok(NewRelease {
        name: specification.name.clone(),
        release: Release {
            identity: Identity {
                number: specification.version.clone(),
                platform: specification.platform.clone(),
            },
            dependencies: Dependencies::new(&list).map_err(unprocessable)?,
            checksum: package.checksum,
            ruby: RequirementLine::unless_any(&specification.ruby),
            rubygems: RequirementLine::unless_any(&specification.rubygems),
            created_at: now,
        },
        bytes: package.bytes,
        gemspec_rz: gemspec_rz(specification),
        about,
    })
}

/// Returns the text that `gem push` shows.
fn answer(
    specification: &Specification,
    pushed: &Pushed,
    has_attestations: bool,
) -> Response<ResponseBody> {
    let Specification { name, version, platform, .. } = specification;
    let mut text = match platform.is_ruby() {
        true => format!("Successfully registered gem: {name} ({version})\n"),
        false => format!("Successfully registered gem: {name} ({version}-{platform})\n"),
    };
    if !pushed.lookalikes.is_empty() {
        let others = pushed.lookalikes.join(", ");
        text.push_str(&format!("Warning: the name {name} can be taken for {others}.\n"));
    }
    if has_attestations {
        text.push_str("Note: attestations are not kept here.\n");
    }
    let mut response = Response::new(ResponseBody::from(text));
    response.headers_mut().insert(hyper::header::CONTENT_TYPE, TEXT);
    response
}
