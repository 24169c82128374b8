"""What a handler may say about a message that it cannot process."""


class PoisonMessage(Exception):
    """This message will never be processed, however often it is tried: to the dead letters with it."""
