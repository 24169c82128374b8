"""Periodic work beside commands and streams. Any number of processes may do the same at once."""

from services.ingestion.use_cases.index_artifacts import IndexArtifacts, RemoveDeletedArtifacts


async def process_artifacts(index: IndexArtifacts, remove: RemoveDeletedArtifacts) -> int:
    """Documents that wait come before the removal of deleted ones."""
    return await index() or await remove()
