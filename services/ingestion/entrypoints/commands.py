"""Commands on ``ingestion-commands`` and the use case that carries out each."""

from collections.abc import Callable
from datetime import datetime

from libs.contracts.commands.ingestion import (
    AddCollectionFiles,
    ChangeFiles,
    CopyArtifact,
    CreateCollection,
    CreateKnowledgeBase,
    DeleteCollection,
    DeleteFile,
    DeleteKnowledgeBase,
    IngestKnowledgeBase,
    RemoveCollectionFile,
    UpdateCollection,
    UpdateKnowledgeBase,
)
from libs.eventing import CommandRouter
from services.ingestion.domain.ports.knowledge_bases import KnowledgeBaseReader
from services.ingestion.use_cases.change_collections import (
    AddCollection,
    AddFilesToCollection,
    Collections,
    EditCollection,
    Files,
    RemoveCollection,
    RemoveFileFromCollection,
)
from services.ingestion.use_cases.change_files import EditFiles, RemoveFile
from services.ingestion.use_cases.change_knowledge_bases import (
    AddKnowledgeBase,
    EditKnowledgeBase,
    KnowledgeBases,
    RemoveKnowledgeBase,
    ResolveKnowledgeBaseEdit,
    ResolveNewKnowledgeBase,
    StartIngestion,
)
from services.ingestion.use_cases.copy_artifact import FetchArtifact, StoreFetchedArtifact
from services.ingestion.use_cases.settings_resolver import SettingsResolver

Now = Callable[[], datetime]


def file_commands(router: CommandRouter, files: Files, collections: Collections, now: Now) -> None:
    router.handle(DeleteFile, RemoveFile(files))
    router.handle(ChangeFiles, EditFiles(files))
    router.handle(CreateCollection, AddCollection(collections, now))
    router.handle(UpdateCollection, EditCollection(collections))
    router.handle(DeleteCollection, RemoveCollection(collections))
    router.handle(AddCollectionFiles, AddFilesToCollection(files, collections))
    router.handle(RemoveCollectionFile, RemoveFileFromCollection(collections))


def knowledge_base_commands(
    router: CommandRouter, reader: KnowledgeBaseReader, bases: KnowledgeBases, resolver: SettingsResolver, now: Now
) -> None:
    router.handle_prepared(CreateKnowledgeBase, ResolveNewKnowledgeBase(resolver), AddKnowledgeBase(bases, now))
    edit = ResolveKnowledgeBaseEdit(reader, resolver)
    router.handle_prepared(UpdateKnowledgeBase, edit, EditKnowledgeBase(bases, now))
    router.handle(IngestKnowledgeBase, StartIngestion(bases))
    router.handle(DeleteKnowledgeBase, RemoveKnowledgeBase(bases), ends_later=True)


def artifact_commands(router: CommandRouter, fetch: FetchArtifact, store: StoreFetchedArtifact) -> None:
    router.handle_prepared(CopyArtifact, fetch, store)
