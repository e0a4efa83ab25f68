"""(a room)"""
