//! The built-in ACP agent: scripted by directives, honest without.
