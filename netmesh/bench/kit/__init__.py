"""What every measured program shares: inputs, clock loop, histogram, protocol.

The package uses the standard library alone and imports nothing of netmesh, so that the
adapter of another stack can load it without loading what it is compared with.
"""
