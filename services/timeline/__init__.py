"""The timeline service, which keeps the numbered log of every company's events, delivers webhooks and counts usage."""
