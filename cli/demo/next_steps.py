"""Step 9: commands to go on with by hand."""

import os
from pathlib import Path

from cli.demo.conversation import Talk
from cli.demo.screen import Screen
from cli.demo.start import Running
from cli.studio_link import studio_link
from deploy.local.home import PROJECT_ROOT

_COMMANDS = """\
AES={base_url}/api/v1
KEY="x-api-key: {key}"

# Ask on in the first session; -N shows the stream as it comes.
curl -N -H "$KEY" -H "content-type: application/json" \\
     -H "accept: text/event-stream" \\
     -d '{{"content": "{question}"}}' \\
     $AES/runtime/{session_id}/execute/

# Its history; a session of your own from a YAML file.
curl -H "$KEY" "$AES/runtime/{session_id}/messages/"
curl -H "$KEY" -H "content-type: application/yaml" \\
     --data-binary @{agent} $AES/sessions/
"""


def show(screen: Screen, stack: Running, talk: Talk) -> None:
    screen.heading(9, "Go on by hand")
    # A demo in a container talks to an address that nobody outside knows.
    base_url = os.environ.get("AES_PUBLIC_URL") or stack.connection.base_url
    commands = _COMMANDS.format(
        base_url=base_url,
        key=_key(stack),
        session_id=talk.session.session_id,
        question=talk.agent.part.questions[-1].replace("'", "").replace('"', ""),
        agent=near(Path(talk.agent.path)),
    )
    screen.console.print()
    screen.command(commands)
    screen.line(f"Reference   {base_url}/api/v1/docs/", "dim")
    screen.line("Studio      shows all of this in a browser; the link signs in once, within an hour:", "dim")
    screen.command(studio_link(stack.connection, base_url))
    if stack.key_file is not None:
        screen.line("The stack stays up: ./aes status, ./aes logs -f, ./aes down", "dim")


def _key(stack: Running) -> str:
    """Shell expression that yields the key, so that the key itself stays off the screen."""
    if stack.key_file is None:
        return "$AES_API_KEY"
    return f"$(cat {near(stack.key_file)})"


def near(path: Path) -> str:
    """The path relative to the current directory where that is shorter."""
    full = path if path.is_absolute() else PROJECT_ROOT / path
    here = Path(os.path.relpath(full))
    return str(full if here.parts[:2] == ("..", "..") else here)
