"""Environments: what a dialogue plays in, and the loop that plays it.

    await play(messages, assistant, user, environment)

`environment.py` is both: tools, their calls and API Search as a tool that any offers; and players
that are a script, while those that are a model are the simulator. Calls are run by the first that
can: a world's interpreter, a process or an MCP server that a recipe names (`executed.py`, `mcp.py`,
`function_server.py`), or the simulator.

May touch: the processes and servers that a recipe names; the response cache; checks, schemas.
Begin with `environment.py`.
"""
