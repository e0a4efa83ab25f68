"""Environments: what a dialogue plays in, and the loop that plays it.

    await play(messages, assistant, user, environment)

`play.py` is the loop, with assistants and users that are a script or a recording; the simulator
is those that are a model. `environment.py` says what an environment is: tools, calls, a fork,
changes, and API Search as a tool that any offers. Its calls are run by the first that can: a
world's interpreter, a process or an MCP server that a recipe names (`executed.py`, `mcp.py`,
`function_server.py`), or a function that is handed in, the simulator's.

May touch: the processes and servers that a recipe names; the response cache; checks, schemas.
Begin with `environment.py`, then `play.py`.
"""
