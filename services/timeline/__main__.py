"""The timeline's command line: ``python -m services.timeline all|api|log|webhooks|migrate``."""

import gc

if __name__ == "__main__":
    # Imported objects are never freed, so garbage collection during imports is wasted. `serve` turns it on again.
    gc.disable()
    from libs.service_defaults import serve
    from services.timeline.bootstrap import LOG, WEBHOOKS, build, build_log, build_webhooks
    from services.timeline.settings import TimelineSettings

    serve("timeline", TimelineSettings, build, own_roles={LOG: build_log, WEBHOOKS: build_webhooks})
