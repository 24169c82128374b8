"""`aes companies`, `aes users` and `aes keys`, which work in the gateway's database."""
