"""The timeline service: the numbered log of every company's events, webhooks, and the usage of turns."""
