//! Errors in OpenAI's shape.

use serde_json::json;

use crate::core::wire::Fault;

/// The body of an error that Baler answers with.
pub(in crate::core::wire) fn error_body(fault: Fault, code: &str, message: &str) -> String {
    let kind = match fault {
        Fault::Request => "invalid_request_error",
        Fault::Service => "api_error",
    };
    json!({ "error": { "message": message, "type": kind, "param": null, "code": code } })
        .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_has_the_shape_that_sdks_read() {
        let body = error_body(Fault::Request, "context_unfit", "too \"long\"");
        let value: serde_json::Value = serde_json::from_str(&body).unwrap();
        assert_eq!(value["error"]["type"], "invalid_request_error");
        assert_eq!(value["error"]["code"], "context_unfit");
        assert_eq!(value["error"]["message"], "too \"long\"");
        assert!(value["error"]["param"].is_null());
        assert!(error_body(Fault::Service, "internal", "x").contains("api_error"));
    }
}
