"""Commands on ``ingestion-commands`` and their use cases."""

from libs.contracts.resources.collections import (
    AddCollectionFiles,
    CreateCollection,
    DeleteCollection,
    RemoveCollectionFile,
    UpdateCollection,
)
from libs.contracts.resources.files import ChangeFiles, CopyArtifact, DeleteFile
from libs.contracts.resources.knowledge_bases import (
    CreateKnowledgeBase,
    DeleteKnowledgeBase,
    IngestKnowledgeBase,
    UpdateKnowledgeBase,
)
from libs.eventing import CommandRouter
from services.ingestion.use_cases import change_collections
from services.ingestion.use_cases.change_files import change_files, delete_file
from services.ingestion.use_cases.change_knowledge_bases import (
    ChangeKnowledgeBases,
    delete_knowledge_base,
    start_ingestion,
)
from services.ingestion.use_cases.copy_artifacts import CopyArtifacts


def register_commands(router: CommandRouter, bases: ChangeKnowledgeBases, copy: CopyArtifacts) -> None:
    router.handle(DeleteFile, delete_file)
    router.handle(ChangeFiles, change_files)
    router.handle(CreateCollection, change_collections.create_collection)
    router.handle(UpdateCollection, change_collections.update_collection)
    router.handle(DeleteCollection, change_collections.delete_collection)
    router.handle(AddCollectionFiles, change_collections.add_files)
    router.handle(RemoveCollectionFile, change_collections.remove_file)
    router.handle_prepared(CreateKnowledgeBase, bases.resolve_new, bases.add)
    router.handle_prepared(UpdateKnowledgeBase, bases.resolve_edit, bases.edit)
    router.handle(IngestKnowledgeBase, start_ingestion)
    router.handle(DeleteKnowledgeBase, delete_knowledge_base, ends_later=True)
    router.handle_prepared(CopyArtifact, copy.fetch, copy.store)
