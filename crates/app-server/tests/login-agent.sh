#!/bin/sh
# An agent that opens sessions only after a login: `--login` in a terminal, or its method `web`. It remembers that in the
# file that LOGIN_FILE names. Its method `code` writes an address and a code to stderr, and asks to open another address.
if [ "$1" = --login ]; then
    [ "$LOGIN_WORD" = please ] && : > "$LOGIN_FILE"
    exit 0
fi
while read -r line; do
    id=$(printf '%s' "$line" | sed 's/.*"id":\([0-9]*\).*/\1/')
    result=
    case "$line" in
    *'"method":"initialize"'*)
        result='{"protocolVersion":1,"agentInfo":{"name":"gate","title":"Gate","version":"1.2.3"},"agentCapabilities":{"mcpCapabilities":{"http":true}},"authMethods":[{"id":"tty","name":"In a terminal","type":"terminal","args":["--login"],"env":{"LOGIN_WORD":"please"}},{"id":"web","name":"In a browser"},{"id":"code","name":"With a code"}]}' ;;
    *'"methodId":"code"'*)
        printf 'Your code: \033[1mAB-12\033[0m\nWaiting' >&2
        printf '{"jsonrpc":"2.0","id":"ask","method":"elicitation/create","params":{"mode":"url","requestId":%s,"elicitationId":"e1","url":"https://login.example/device","message":"Open this and type the code"}}\n' "$id"
        read -r answer
        case "$answer" in
        *'"action":"accept"'*) : > "$LOGIN_FILE"; result='{}' ;;
        *) printf ' in vain\n' >&2 ;;
        esac ;;
    *'"method":"authenticate"'*)
        [ -n "$LOGIN_HANGS" ] && continue
        : > "$LOGIN_FILE"
        result='{}' ;;
    *'"method":"session/new"'*)
        [ -e "$LOGIN_FILE" ] && result='{"sessionId":"s1"}' ;;
    *'"id":'*)
        result='{}' ;;
    *)
        continue ;;
    esac
    if [ -n "$result" ]; then
        printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$result"
    else
        printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32000,"message":"Please log in"}}\n' "$id"
    fi
done
