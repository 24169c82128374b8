"""The numbered log of a company's events, its pages and webhooks, and usage of turns."""
