"""Indexes in other servers: Qdrant and Neo4j."""
