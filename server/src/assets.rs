//! The page: files that are inside the program.

use crate::named::Named;
use crate::refusal::Refusal;
use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderValue, Response};
use rust_embed::RustEmbed;

#[derive(RustEmbed)]
#[folder = "assets"]
struct Files;

/// Returns the page itself.
pub(crate) async fn page() -> Result<Response<Body>, Refusal> {
    file("index.html")
}

/// Returns a file that the page loads, such as a script or a style sheet.
pub(crate) async fn asset(Named(name): Named) -> Result<Response<Body>, Refusal> {
    file(&name)
}

/// Returns a file by its exact name among those that were embedded when the program was built.
fn file(name: &str) -> Result<Response<Body>, Refusal> {
    let file = Files::get(name).ok_or_else(|| Refusal::not_found("such file"))?;
    let mut response = Response::new(Body::from(file.data));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type(name)));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    Ok(response)
}

fn media_type(name: &str) -> &'static str {
    match name.rsplit_once('.').map(|(_, ending)| ending) {
        Some("html") => "text/html; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("svg") => "image/svg+xml",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_has_a_media_type_and_asks_for_nothing_outside() {
        for name in Files::iter() {
            assert_ne!(media_type(&name), "application/octet-stream", "{name}");
            let file = Files::get(&name).expect("listed");
            let text = std::str::from_utf8(&file.data).expect("text").replace("http://www.w3.org/2000/svg", "");
            assert!(!text.contains("http://") && !text.contains("https://") && !text.contains("//cdn"), "{name}");
            assert!(!text.contains("innerHTML") && !text.contains("eval("), "{name}");
        }
    }

    #[test]
    fn the_page_has_no_script_or_style_of_its_own() {
        let file = Files::get("index.html").expect("the page");
        let text = std::str::from_utf8(&file.data).expect("text");
        assert!(!text.contains("<style") && !text.contains(" style=") && !text.contains(" onclick"));
        assert!(text.matches("<script").count() == text.matches("<script type=\"module\" src=").count());
    }
}
